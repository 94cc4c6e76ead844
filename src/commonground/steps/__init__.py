"""(people, gate, share of the budget, …) → a public value: what several estimators release on their way."""
