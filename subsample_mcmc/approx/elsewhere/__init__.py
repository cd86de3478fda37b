"""Derivatives of rows that are elsewhere: the passes of approx/taylor, made part by part."""
