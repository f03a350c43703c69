"""The demo: real networks on real images, aligned and measured, with nothing to download."""
