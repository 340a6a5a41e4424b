"""The paper's boxes: pure functions of tensors and plain keywords, torch only."""
