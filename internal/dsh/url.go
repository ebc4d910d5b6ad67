package dsh

import (
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// ParseURL reads the address of a host. It takes an http or https URL with a host and, if need be, a port; a lone "/"
// is dropped. User info, a path, a query and a fragment are refused: the wire has a fixed path and no login, and a
// secret that was pasted into the address must not get into requests and logs. Unless allowRemote is set, only this
// machine is taken (127.0.0.0/8, ::1, localhost), since a DSH host has no authentication of its own.
//
// The error names the value without what may be secret in it, and says what to change.
func ParseURL(raw string, allowRemote bool) (*url.URL, error) {
	refuse := func(format string, args ...any) (*url.URL, error) {
		return nil, fmt.Errorf("host URL %q: %s", shown(raw), fmt.Sprintf(format, args...))
	}
	u, err := url.Parse(raw)
	if err != nil {
		// The cause is left out because it repeats the value.
		return refuse("not a URL; write it like http://127.0.0.1:3080")
	}
	if u.Scheme != "http" && u.Scheme != "https" {
		return refuse("the scheme has to be http or https, as in http://127.0.0.1:3080")
	}
	switch {
	case u.User != nil:
		return refuse("user info is not supported; take out everything up to the @")
	case u.Hostname() == "":
		return refuse("it names no host; write it like http://127.0.0.1:3080")
	case u.Path != "" && u.Path != "/":
		return refuse("a path is not supported; leave out what follows the port")
	case u.RawQuery != "" || u.ForceQuery:
		return refuse("a query is not supported; leave out the ? and what follows it")
	case strings.Contains(raw, "#"):
		return refuse("a fragment is not supported; leave out the # and what follows it")
	case !validPort(u):
		return refuse("the port has to be a number from 1 to 65535")
	case !allowRemote && !isLoopback(u.Hostname()):
		return refuse("%s is not this machine; set DSH_ALLOW_REMOTE_HOST=true to allow a remote host", u.Hostname())
	}
	return &url.URL{Scheme: u.Scheme, Host: u.Host}, nil
}

// shown cuts out of raw what may be secret: everything before an @, which may be a password, and a query or
// fragment, which may be a login token.
func shown(raw string) string {
	if i := strings.LastIndexByte(raw, '@'); i >= 0 {
		raw = "…" + raw[i:]
	}
	if i := strings.IndexAny(raw, "?#"); i >= 0 {
		raw = raw[:i+1] + "…"
	}
	return raw
}

func validPort(u *url.URL) bool {
	if strings.HasSuffix(u.Host, ":") {
		return false
	}
	port := u.Port()
	if port == "" {
		return true
	}
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && n > 0
}

func isLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Zone() == "" && addr.IsLoopback()
}
