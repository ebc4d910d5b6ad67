package config

import (
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"time"
)

// The bounds and defaults that [Variables] and [Load] share.
const (
	// DefaultHostURL is where a host listens unless it is told otherwise.
	DefaultHostURL = "http://127.0.0.1:3080"

	defaultRequestTimeout = 30 * time.Second
	minRequestTimeout     = 100 * time.Millisecond
	maxRequestTimeout     = 10 * time.Minute

	defaultLockTimeout = 5 * time.Second
	minLockTimeout     = 100 * time.Millisecond
	maxLockTimeout     = time.Minute

	// A ledger has to hold at least a few records between two compactions; past a gigabyte it could not be read in time.
	defaultLedgerBytes = 4 << 20
	minLedgerBytes     = 4 << 10
	maxLedgerBytes     = 1 << 30

	// An approval that is rejected within a second of being asked for could never be seen; a day is for ever.
	minApprovalTimeout = time.Second
	maxApprovalTimeout = 24 * time.Hour

	defaultLog = "info"

	maxHostVersionChars = 64
	maxPresetChars      = 128
)

// LogOff is above every level that is logged at.
const LogOff = slog.Level(math.MaxInt32)

// logLevels are the values of DSH_LOG, from the most to the least.
var logLevels = []struct {
	name  string
	level slog.Level
}{
	{"debug", slog.LevelDebug},
	{"info", slog.LevelInfo},
	{"warn", slog.LevelWarn},
	{"error", slog.LevelError},
	{"off", LogOff},
}

// approvalConfirms are the values of DSH_APPROVAL_CONFIRM, the default first.
var approvalConfirms = []string{"auto", "required", "off"}

// Variable describes one environment variable for help texts and documents.
type Variable struct {
	Name    string
	Default string // the value that stands in for an unset variable, or a description of it; empty for none
	Help    string
}

// Variables are the environment variables that [Load] reads, in the order in which they matter to a person.
var Variables = []Variable{
	{"DSH_HOST_URL", DefaultHostURL, "address of the DSH host: http or https, host and port, nothing else"},
	{"DSH_HOME", "~/.dsh", "folder of DSH; the bridge's own folder is inside it unless set apart"},
	{"DSH_BRIDGE_HOME", "$DSH_HOME/agentlink", "folder of the bridge: absolute or starting with ~/; bridges that share it share tasks and claims"},
	{"DSH_BRIDGE_AGENT_PRESET", "", "agent preset of tasks that ask for none; without it the host's default"},
	{"DSH_BRIDGE_TIME_ZONE", "the system's", "time zone that the host is told with each prompt: UTC or an IANA name such as Europe/Berlin"},
	{"DSH_REQUEST_TIMEOUT_MS", millis(defaultRequestTimeout), "how long one call to the host may take, " + bounds(minRequestTimeout, maxRequestTimeout)},
	{"DSH_LOCK_TIMEOUT_MS", millis(defaultLockTimeout), "how long to wait for another bridge process that holds a lock, " + bounds(minLockTimeout, maxLockTimeout)},
	{"DSH_APPROVAL_CONFIRM", approvalConfirms[0], "whether allowing a call takes a person's word through the client: auto (where it can ask), required or off"},
	{"DSH_APPROVAL_TIMEOUT_MS", "", "reject an approval that nobody has decided for so long, " + bounds(minApprovalTimeout, maxApprovalTimeout) + "; unset: never"},
	{"DSH_LEDGER_MAX_BYTES", strconv.Itoa(defaultLedgerBytes), fmt.Sprintf("size past which a task's ledger is compacted, %d to %d bytes", minLedgerBytes, maxLedgerBytes)},
	{"DSH_HOST_VERSION", "", fmt.Sprintf("version of the host, for reports only: up to %d printable characters", maxHostVersionChars)},
	{"DSH_ALLOW_REMOTE_HOST", "false", "true allows a host that is not on this machine's loopback interface"},
	{"DSH_LOG", defaultLog, "what is logged to stderr: debug, info, warn, error or off"},
}

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

func bounds(lo, hi time.Duration) string {
	return fmt.Sprintf("%d to %d ms", lo.Milliseconds(), hi.Milliseconds())
}
