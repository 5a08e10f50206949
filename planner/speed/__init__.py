"""Time: kernels, collectives, the engine step, prefill, and the physical bounds beside them."""
