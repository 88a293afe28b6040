"""Rules of Megatron and MindSpeed-MM that hold for every model (core_v0.12.1, MM 2.2.0)."""
