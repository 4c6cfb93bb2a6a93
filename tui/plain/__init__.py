"""Line mode: the interface without a full screen."""
