"""Other pytest plugins that this one works with."""
