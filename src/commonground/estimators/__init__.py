"""The public estimators: one class each, on ``base.PersonalModel``; ``fedrep/`` and ``altmin/`` have several recipes."""
