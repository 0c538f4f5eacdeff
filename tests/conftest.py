from __future__ import annotations

import hypothesis

hypothesis.settings.register_profile("default", deadline=None, derandomize=True, max_examples=40)
hypothesis.settings.load_profile("default")
