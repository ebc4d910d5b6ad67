package bridge

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"al.essio.dev/pkg/shellescape"

	"dsh-agentlink/claims"
	"dsh-agentlink/internal/config"
	"dsh-agentlink/internal/home"
	"dsh-agentlink/internal/tasks"
	"dsh-agentlink/ledger"
)

const newerHint = "A newer bridge wrote that file: use that one for this home."

// fromDisk turns a failure of the bridge's own files into one that a caller, or the person behind it, can act on.
func fromDisk(err error, hostURL string) *Error {
	if damaged, ok := errors.AsType[*ledger.DamagedError](err); ok {
		e := (&Error{Code: CodeLedgerDamaged, Message: damaged.Error(), Hint: newerHint}).with("path", damaged.Path)
		if !damaged.Newer {
			words := "ledgers recover " + filepath.Base(filepath.Dir(damaged.Path))
			if damaged.Seen > 0 {
				words += fmt.Sprintf(" --above %d", damaged.Seen)
			}
			e.Hint = "Only this task is affected and nothing was changed. A person builds the ledger anew from the host's history: " +
				command(homeOf(damaged.Path), hostURL, words)
		}
		return e
	}
	if locked, ok := errors.AsType[*home.LockTimeoutError](err); ok {
		return &Error{Code: CodeLockTimeout, Message: locked.Error(),
			Hint: "Try again. When the same process is named again and again it hangs: ending it frees the lock."}
	}
	if folder, ok := errors.AsType[*home.LockFolderError](err); ok {
		return &Error{Code: CodeLockTimeout, Message: folder.Error(),
			Hint: "When no such bridge runs any more, a person moves it aside: " + command(homeOf(folder.Path), hostURL, "locks recover")}
	}
	e := &Error{Code: CodeInternal, Message: err.Error()}
	if path, hint, ok := diskFault(err); ok {
		e.Code, e.Hint = CodeDiskFault, hint
		e.with("path", path)
	} else if errors.Is(err, tasks.ErrNewerFormat) {
		e.Hint = newerHint
	} else if claim, ok := errors.AsType[*claims.FileError](err); ok {
		e.Hint = "Once it is certain that the task is not at work, a person moves that claim aside: " + command(homeOf(claim.Path), hostURL, "claims release "+claim.TaskID)
	} else if _, ok := errors.AsType[*tasks.FileError](err); ok {
		e.Hint = "Only that task is affected. A person looks at the file, and moves it aside when it cannot be mended."
	}
	return e
}

// diskFault is the path that a failed operation was about and what to do about it, where the failure is one of the disk,
// of the system, or of something lying in the place of what the bridge keeps there.
func diskFault(err error) (path, hint string, ok bool) {
	const nothing = "Nothing was acknowledged that is not on the disk. "
	const mend = nothing + "Make room or mend the permissions of that path, then call again."
	if unsafe, ok := errors.AsType[*home.UnsafeError](err); ok {
		return unsafe.Path, nothing + "A person looks at what lies there and moves it away; then call again.", true
	}
	if fault, ok := errors.AsType[*fs.PathError](err); ok {
		return fault.Path, mend, true
	}
	return "", "", false
}

// homeOf is the bridge's folder that a file lies in: some levels above it, where the folders' names say so.
func homeOf(path string) string {
	for dir := filepath.Dir(path); dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		switch filepath.Base(dir) {
		case "tasks", "claims", "ledgers":
			return filepath.Dir(dir)
		}
	}
	return filepath.Dir(path)
}

// command is what a person types to run one of the operator's commands on the bridge's home and host.
func command(dir, hostURL, words string) string {
	line := "DSH_BRIDGE_HOME=" + shellescape.Quote(dir) + " "
	if hostURL != "" && hostURL != config.DefaultHostURL {
		line += "DSH_HOST_URL=" + shellescape.Quote(hostURL) + " "
	}
	return line + "dsh-agentlink " + words
}
