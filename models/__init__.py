"""The recipe of the tiny family: corpus, tokenizer, training, distillation, export, measurement. Not installed."""
