"""Tool calls: policy, approval, execution, and how their outputs are shown."""
