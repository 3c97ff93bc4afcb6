"""Drawings of how a mechanism works: boxes and arrows, one module for each chapter's picture."""
