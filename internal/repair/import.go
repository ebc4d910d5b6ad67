package repair

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"dsh-agentlink/claims"
	"dsh-agentlink/internal/operator"
	"dsh-agentlink/internal/tasks"
)

// maxForeignBytes bounds what is read of a foreign task or claim file; each holds a few ids and a path.
const maxForeignBytes = 64 << 10

// Foreign is a task of a TypeScript bridge's home, as it will be in this one.
type Foreign struct {
	Task tasks.Task `json:"task"`
	// Claim is nil when the task holds none.
	Claim *claims.Claim `json:"claim,omitempty"`
	// OldID is what the task was called there, if that is no id of this bridge.
	OldID string `json:"oldId,omitempty"`
	path  string
	known bool // this home has the task already, in this bridge's form
}

// Known reports whether this home has the task already, so that there is nothing to import of it.
func (f Foreign) Known() bool { return f.known }

// foreignTask and foreignClaim are the files of a TypeScript bridge.
type foreignTask struct {
	TaskID    string `json:"taskId"`
	SessionID string `json:"sessionId"`
}

type foreignClaim struct {
	SessionID string          `json:"sessionId"`
	Cwd       string          `json:"cwd"`
	Mode      claims.Mode     `json:"mode"`
	Workspace claims.Mode     `json:"workspaceMode"`
	CreatedAt json.RawMessage `json:"createdAt"`
}

// Scan reads the tasks and claims of a TypeScript bridge's home and changes nothing. What cannot be read is a problem
// in the report.
func (r *Repair) Scan(dir string) (found []Foreign, report Report, err error) {
	report = newReport()
	folder := filepath.Join(dir, "tasks")
	entries, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, report, fmt.Errorf("%s has no folder tasks, so it is no home of a TypeScript bridge; give the folder that DSH_BRIDGE_HOME named for it", dir)
	}
	if err != nil {
		return nil, report, fmt.Errorf("read the tasks of %s: %w", dir, err)
	}
	for _, e := range entries {
		path := filepath.Join(folder, e.Name())
		if filepath.Ext(path) != ".json" {
			continue
		}
		f, err := r.scanTask(dir, path)
		if err != nil {
			report.problem("", "Nothing of it is taken over.", "%s: %v", path, err)
			continue
		}
		found = append(found, f)
	}
	return found, report, nil
}

func (r *Repair) scanTask(dir, path string) (Foreign, error) {
	var old foreignTask
	changed, err := readForeign(path, &old)
	if err != nil {
		return Foreign{}, err
	}
	name := strings.TrimSuffix(filepath.Base(path), ".json")
	f := Foreign{path: path, Task: tasks.Task{TaskID: name, SessionID: old.SessionID, CreatedAt: changed, Stage: tasks.Prompted, PromptSent: tasks.SentYes}}
	if cmp.Or(old.TaskID, name) != name {
		return Foreign{}, fmt.Errorf("it holds task %q", old.TaskID)
	}
	if !tasks.ValidID(name) {
		f.OldID, f.Task.TaskID = name, newIDFor(name)
	}
	if _, err := r.tasks.Load(f.Task.TaskID); err == nil {
		f.known = true
		return f, nil
	}
	f.Claim, err = scanClaim(filepath.Join(dir, "claims", name+".json"), f.Task)
	if err != nil {
		return Foreign{}, err
	}
	if f.Claim != nil {
		f.Task.CreatedAt = f.Claim.CreatedAt
	}
	return f, f.Task.Validate()
}

// newIDFor is the id of a task whose old one has another form; the same every time.
func newIDFor(old string) string {
	sum := sha256.Sum256([]byte(old))
	return "dsh_" + hex.EncodeToString(sum[:6])
}

func scanClaim(path string, task tasks.Task) (*claims.Claim, error) {
	var old foreignClaim
	changed, err := readForeign(path, &old)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("its claim %s: %w", path, err)
	}
	if old.SessionID != "" && old.SessionID != task.SessionID {
		return nil, fmt.Errorf("its claim %s is for session %q", path, old.SessionID)
	}
	c := claims.Claim{TaskID: task.TaskID, SessionID: task.SessionID, Cwd: old.Cwd, Mode: cmp.Or(old.Mode, old.Workspace, claims.ExclusiveWrite), CreatedAt: changed}
	if at, ok := foreignTime(old.CreatedAt); ok {
		c.CreatedAt = at
	}
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("its claim %s: %w", path, err)
	}
	return &c, nil
}

// foreignTime reads a time that is written as a text or in milliseconds since the epoch.
func foreignTime(raw json.RawMessage) (time.Time, bool) {
	var text time.Time
	if len(raw) > 0 && json.Unmarshal(raw, &text) == nil && !text.IsZero() {
		return text, true
	}
	var ms int64
	if len(raw) > 0 && json.Unmarshal(raw, &ms) == nil && ms > 0 {
		return time.UnixMilli(ms), true
	}
	return time.Time{}, false
}

// readForeign reads a small JSON file that is no link, and tells when it was changed last.
func readForeign(path string, into any) (changed time.Time, err error) {
	info, err := os.Lstat(path)
	if err != nil {
		return time.Time{}, err
	}
	if !info.Mode().IsRegular() {
		return time.Time{}, errors.New("it is no plain file")
	}
	f, err := os.Open(path)
	if err != nil {
		return time.Time{}, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxForeignBytes+1))
	if err != nil {
		return time.Time{}, err
	}
	if len(data) > maxForeignBytes {
		return time.Time{}, fmt.Errorf("it has more than %d bytes", maxForeignBytes)
	}
	return info.ModTime(), json.Unmarshal(data, into)
}

// Import takes the tasks over. Their ledgers are built from the host's history when a bridge next looks at them, with
// cursors that begin anew. In a home that both bridges share, the old files are kept under other names.
func (r *Repair) Import(ctx context.Context, found []Foreign) (Report, error) {
	report := newReport()
	for _, f := range found {
		if f.known {
			continue
		}
		if err := r.importTask(ctx, &report, f); err != nil {
			return report, fmt.Errorf("task %s: %w", f.Task.TaskID, err)
		}
	}
	return report, nil
}

func (r *Repair) importTask(ctx context.Context, report *Report, f Foreign) error {
	id := f.Task.TaskID
	what := "took over the task"
	if f.OldID != "" {
		what = "took over the task that was called " + f.OldID
	}
	if err := r.setAside(report, id, r.home.LedgerDir(id), r.home.MoveAside); err != nil {
		return err
	}
	if f.Claim != nil {
		if err := r.setAside(report, id, r.home.ClaimFile(id), r.home.Keep); err != nil {
			return err
		}
		err := r.claims.Adopt(ctx, *f.Claim)
		conflict, inTheWay := errors.AsType[*claims.ConflictError](err)
		switch {
		case inTheWay:
			report.problem(id, operator.Program+" claims shows who holds what.", "the task has no claim here: %v", conflict)
		case err != nil:
			return err
		default:
			what += fmt.Sprintf(" and its %s claim on %s", f.Claim.Mode, f.Claim.Cwd)
		}
	}
	// The mapping comes last: while it is missing, another run takes the task over again.
	if err := r.setAside(report, id, r.home.TaskFile(id), r.home.Keep); err != nil {
		return err
	}
	if err := r.tasks.Save(f.Task); err != nil {
		return err
	}
	report.did(Step{TaskID: id, Did: what, Path: r.home.TaskFile(id)})
	return nil
}

// setAside keeps what the other bridge has at a path of a home that both share.
func (r *Repair) setAside(report *Report, id, path string, put func(path, why string, now time.Time) (string, error)) error {
	kept, err := put(path, "typescript", r.now())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	report.did(Step{TaskID: id, Did: "kept what the TypeScript bridge had there", Path: path, Kept: kept})
	return nil
}

// Missing lists the imported tasks whose sessions the host does not know. It is empty when the host cannot be asked.
func (r *Repair) Missing(ctx context.Context, found []Foreign) []string {
	sessions, err := r.opts.Host.Sessions(ctx)
	if err != nil {
		return nil
	}
	known := map[string]bool{}
	for _, s := range sessions {
		known[s.ID] = true
	}
	var missing []string
	for _, f := range found {
		if !known[f.Task.SessionID] {
			missing = append(missing, f.Task.TaskID)
		}
	}
	slices.Sort(missing)
	return missing
}
