package cli

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"

	"dsh-agentlink/internal/dsh"
	"dsh-agentlink/internal/operator"
)

// Version is the release this tree is on the way to.
const Version = "0.1.0-dev"

// release is the version of a released binary, which the linker sets; empty for any other.
var release string

// version is what this binary says it is.
func version() string { return cmp.Or(release, Version) }

// commit is the revision the binary was built from, as the Go tool stamps it; empty for a build outside a checkout.
func commit() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	revision := operator.Revision(info)
	if revision == "" {
		return ""
	}
	return " " + revision
}

func versionLine() string {
	return fmt.Sprintf("dsh-agentlink %s%s %s %s/%s, speaks to DSH %s", version(), commit(), runtime.Version(), runtime.GOOS, runtime.GOARCH, dsh.SpokenVersions)
}
