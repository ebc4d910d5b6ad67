//go:build callers

package callers

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/gofrs/flock"

	"dsh-agentlink/internal/scenario/livehost"
)

// The callers, pinned: what they accept changes with every release.
//
//go:embed package.json
var packageJSON []byte

// cacheVariable names the environment variable that moves the folder the callers are installed into.
const cacheVariable = "DSH_CALLERS_CACHE"

// installLimit bounds an installation.
const installLimit = 8 * time.Minute

// errUnavailable says that this machine cannot get a caller.
var errUnavailable = errors.New("the callers cannot be installed here")

func cacheDir() (string, error) {
	if dir := os.Getenv(cacheVariable); dir != "" {
		return filepath.Abs(dir)
	}
	base, err := os.UserCacheDir()
	return filepath.Join(base, "dsh-agentlink-callers"), err
}

// installCallers returns the folder with the callers' packages.
func installCallers(ctx context.Context) (string, error) {
	dir, err := cacheDir()
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	lock := flock.New(filepath.Join(dir, "install.lock"))
	if _, err := lock.TryLockContext(ctx, 100*time.Millisecond); err != nil {
		return "", err
	}
	defer lock.Unlock()
	modules := filepath.Join(dir, "node_modules")
	mark := filepath.Join(dir, "installed.json")
	if installed, err := os.ReadFile(mark); err == nil && bytes.Equal(installed, packageJSON) {
		return modules, nil
	}
	npm, err := exec.LookPath("npm")
	if err != nil {
		return "", fmt.Errorf("%w: %w", errUnavailable, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "package.json"), packageJSON, 0o644); err != nil {
		return "", err
	}
	fmt.Fprintln(os.Stderr, "installing the callers into", dir)
	cmd := exec.CommandContext(ctx, npm, "install", "--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock", "--loglevel=error",
		"--fetch-retries=1", "--fetch-retry-mintimeout=1000", "--fetch-retry-maxtimeout=2000") // npm's own patience is minutes
	cmd.Dir = dir
	cmd.WaitDelay = 10 * time.Second
	var said bytes.Buffer
	cmd.Stdout = io.MultiWriter(os.Stderr, &said)
	cmd.Stderr = cmd.Stdout
	if err := cmd.Run(); err != nil {
		if unreachable.Match(said.Bytes()) {
			return "", fmt.Errorf("%w: %s", errUnavailable, unreachable.Find(said.Bytes()))
		}
		return "", fmt.Errorf("npm install: %w", err)
	}
	return modules, os.WriteFile(mark, packageJSON, 0o644)
}

// unreachable finds in npm's words that a package cannot be had here, which is no fault of the project.
var unreachable = regexp.MustCompile(`\b(ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|EHOSTUNREACH|ERR_SOCKET_TIMEOUT|ETARGET|E40[34]|E50[0234])\b`)

// callersOnce installs the callers for all tests of a run.
var callersOnce = sync.OnceValues(func() (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), installLimit)
	defer cancel()
	return installCallers(ctx)
})

// install makes sure of the callers and of a host, or skips the test loudly.
func install(t *testing.T) (modules string, host *livehost.Installation) {
	t.Helper()
	modules, err := callersOnce()
	skip(t, err)
	dir, err := livehost.CacheDir()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), installLimit)
	defer cancel()
	host, err = livehost.Install(ctx, dir, os.Stderr)
	skip(t, err)
	return modules, host
}

func skip(t *testing.T, err error) {
	t.Helper()
	if errors.Is(err, errUnavailable) || errors.Is(err, livehost.ErrUnavailable) {
		fmt.Fprintf(os.Stderr, "\nCALLERS LANE SKIPPED: %v\n\n", err)
		t.Skip("CALLERS LANE SKIPPED:", err)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// codexBinary and claudeBinary are the native programs below the packages' scripts, which only look for them.
func codexBinary(t *testing.T, modules string) string {
	return oneFile(t, filepath.Join(modules, "@openai", "codex-"+platform(), "vendor", "*", "*", "codex"))
}

func claudeBinary(t *testing.T, modules string) string {
	return oneFile(t, filepath.Join(modules, "@anthropic-ai", "claude-code-"+platform(), "claude"))
}

// platform is what npm calls this one.
func platform() string {
	arch := map[string]string{"amd64": "x64", "arm64": "arm64"}[runtime.GOARCH]
	return runtime.GOOS + "-" + arch
}

// oneFile finds the program that a pattern names.
func oneFile(t *testing.T, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range found {
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path
		}
	}
	skip(t, fmt.Errorf("%w: npm brought no program for %s", errUnavailable, platform()))
	return ""
}
