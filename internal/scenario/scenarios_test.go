package scenario

import "slices"

// scenarios is the whole list.
var scenarios = slices.Concat(turnScenarios, manyScenarios, autonomyScenarios, restartScenarios, workspaceScenarios, attachScenarios, goalScenarios, forkScenarios, subagentScenarios, argumentScenarios,
	faultScenarios, outcomeScenarios, resultScenarios, exitScenarios)
