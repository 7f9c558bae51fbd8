//! Launcher and socket call translation for unmodified programs.
