package scenario

import "slices"

// scenarios is the whole list.
var scenarios = slices.Concat(turnScenarios, manyScenarios, autonomyScenarios, restartScenarios, workspaceScenarios, attachScenarios, argumentScenarios,
	faultScenarios, outcomeScenarios, exitScenarios)
