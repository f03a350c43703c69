"""The embedded job: a real model on real images, aligned and measured, with nothing to download."""
