"""Checkpoints by their own headers: tensors and sizes of safetensors and GGUF files, read without their data."""
