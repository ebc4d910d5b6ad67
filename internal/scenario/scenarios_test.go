package scenario

import "slices"

// scenarios is the whole list.
var scenarios = slices.Concat(turnScenarios, manyScenarios, autonomyScenarios, restartScenarios, workspaceScenarios, argumentScenarios,
	faultScenarios, outcomeScenarios, exitScenarios)
