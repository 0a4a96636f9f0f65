"""What several recordings of one program say about its order."""
