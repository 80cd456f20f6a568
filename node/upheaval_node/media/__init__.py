"""Frames on streams: publications, images and subscriptions over shared buffers, TCP and Unix connections."""
