"""For tests of what is built on this: the laws of a unit, and a running projection. Needs the extra ``testing``.

``laws.check_unit_laws`` works under any test runner; ``plugin`` gives pytest the fixture ``todo_kit``.
"""
