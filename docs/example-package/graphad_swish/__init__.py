"""An operator and a pass for graphad."""
