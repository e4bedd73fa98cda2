"""One package per messaging system; everything that is particular to it lives there."""
