package bridge

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dsh-agentlink/internal/home"
)

// What lies in the place of a folder or file of the home is a fault of the disk like one that the system tells of: the
// failure names the path and what to do, and says nothing of a fault in the bridge.
func TestWrongThingsInTheHome(t *testing.T) {
	t.Parallel()
	for name, put := range map[string]func(path string) error{
		"a plain file for a folder":    func(path string) error { return os.WriteFile(filepath.Dir(path), nil, 0o600) },
		"a symbolic link for a folder": func(path string) error { return os.Symlink("/", filepath.Dir(path)) },
		"a folder for a file":          func(path string) error { return os.MkdirAll(path, 0o700) },
		"a symbolic link for a file": func(path string) error {
			if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
				return err
			}
			return os.Symlink("/etc/hostname", path)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			h, err := home.Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, "claims", "a.json")
			if err := put(path); err != nil {
				t.Fatal(err)
			}
			err = h.WriteFile(path, []byte("{}"))
			if err == nil {
				t.Fatal("it was written")
			}
			e := fromDisk(err, "")
			if e.Code != CodeDiskFault || !strings.Contains(e.Message, filepath.Dir(path)) || e.Hint == "" || e.Details["path"] == nil {
				t.Errorf("the failure is %+v", e)
			}
		})
	}
}
