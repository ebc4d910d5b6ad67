package cli

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"
)

// terminal is a pseudo terminal with a program on it. What the program writes is also a following's, for awaitCommand.
type terminal struct {
	*following
	master, slave *os.File
	before        *unix.Termios // how the terminal was set
	read          chan struct{} // closed when everything is read
}

var terminals sync.Map // by script

// openTerminal makes a pseudo terminal.
func openTerminal() (master, slave *os.File, err error) {
	master, err = os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, err
	}
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		return nil, nil, errors.Join(err, master.Close())
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		return nil, nil, errors.Join(err, master.Close())
	}
	slave, err = os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, errors.Join(err, master.Close())
	}
	return master, slave, nil
}

// terminalCommand starts the program on a terminal of 120 columns and 30 lines: terminal [NAME=VALUE…] ARGS…
func terminalCommand(ts *testscript.TestScript, _ bool, args []string) {
	master, slave, err := openTerminal()
	ts.Check(err)
	ts.Check(setSize(master, 120, 30))
	t := &terminal{following: &following{changed: make(chan struct{})}, master: master, slave: slave, read: make(chan struct{})}
	t.before, err = unix.IoctlGetTermios(int(slave.Fd()), unix.TCGETS)
	ts.Check(err)
	program, err := exec.LookPath("dsh-agentlink")
	ts.Check(err)
	var env []string
	for len(args) > 0 && strings.Contains(args[0], "=") {
		env, args = append(env, args[0]), args[1:]
	}
	t.cmd = exec.Command(program, args...)
	t.cmd.Stdin, t.cmd.Stdout, t.cmd.Stderr = slave, slave, slave
	t.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	t.cmd.Env = append([]string{"TERM=xterm-256color"}, env...)
	for _, name := range []string{"DSH_BRIDGE_HOME", "DSH_HOST_URL", "DSH_LOG", "TZ", "TMPDIR", "HOME", "PATH"} {
		t.cmd.Env = append(t.cmd.Env, name+"="+ts.Getenv(name))
	}
	ts.Check(t.cmd.Start())
	go func() {
		defer close(t.read)
		buffer := make([]byte, 4096)
		for {
			n, err := master.Read(buffer)
			t.Write(buffer[:n])
			if err != nil {
				return
			}
		}
	}()
	ts.Defer(func() {
		t.cmd.Process.Kill()
		t.cmd.Wait()
		slave.Close()
		<-t.read // nobody has the other side open any more
		master.Close()
	})
	terminals.Store(ts.Getenv("WORK"), t)
	followings.Store(ts.Getenv("WORK"), t.following)
}

func setSize(f *os.File, columns, rows uint16) error {
	return unix.IoctlSetWinsize(int(f.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: columns})
}

// onTerminal types, resizes, or waits for the end: onterminal type TEXT | resize COLUMNS ROWS | interrupt | ends FILE.
func onTerminal(ts *testscript.TestScript, _ bool, args []string) {
	v, _ := terminals.Load(ts.Getenv("WORK"))
	t := v.(*terminal)
	switch args[0] {
	case "type":
		keys, err := strconv.Unquote(`"` + args[1] + `"`)
		ts.Check(err)
		_, err = t.master.WriteString(keys)
		ts.Check(err)
	case "resize":
		columns, err := strconv.ParseUint(args[1], 10, 16)
		ts.Check(err)
		rows, err := strconv.ParseUint(args[2], 10, 16)
		ts.Check(err)
		ts.Check(setSize(t.master, uint16(columns), uint16(rows)))
	case "interrupt":
		ts.Check(t.cmd.Process.Signal(syscall.SIGTERM))
	case "ends":
		ts.Check(t.cmd.Wait())
		ts.Check(t.restored())
		ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(t.all()), 0o600))
	default:
		ts.Fatalf("unknown: onterminal %s", args[0])
	}
}

func (f *following) all() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.text.String()
}

// restored says what of the terminal is not as it was before the program.
func (t *terminal) restored() error {
	after, err := unix.IoctlGetTermios(int(t.slave.Fd()), unix.TCGETS)
	if err != nil {
		return err
	}
	if diff := cmp.Diff(t.before, after); diff != "" {
		return errors.New("the terminal is set otherwise: " + diff)
	}
	const enter, leave, hide, show = "\x1b[?1049h", "\x1b[?1049l", "\x1b[?25l", "\x1b[?25h"
	// What the program wrote last lies in the terminal until it is read.
	if err := t.slave.Close(); err != nil {
		return err
	}
	<-t.read
	text := t.all()
	if strings.LastIndex(text, leave) < strings.LastIndex(text, enter) || !strings.Contains(text, enter) {
		return fmt.Errorf("the screen was not given back: %q", text)
	}
	if strings.LastIndex(text, show) < strings.LastIndex(text, hide) {
		return fmt.Errorf("the cursor stays hidden: %q", text)
	}
	return nil
}
