//go:build reliability && !linux

package scenario

// limitScenarios need a system on which the limits of another process can be set.
var limitScenarios []scenario
