"""The estimators: white box, black box and DecisionEnsemble."""
