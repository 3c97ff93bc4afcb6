"""Who reads whom, over tokens."""
