"""GPU models: what is known of each, by what names people and nodes call it, and which of them pods may land on."""
