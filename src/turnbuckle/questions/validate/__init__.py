"""Predictions against measurements, case by case, and the card that sums them up."""
