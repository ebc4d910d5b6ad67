// Package callers runs the bridge under the callers themselves: Codex and Claude Code as npm has them, set up by
// "dsh-agentlink setup" and driven by a scripted model, against a real DSH host. Its tests are behind the build tag
// "callers", since they install about 900 MB; .ci/callers runs them.
package callers
