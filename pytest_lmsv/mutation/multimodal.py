"""Rules of MindSpeed-MM's multimodal models."""
