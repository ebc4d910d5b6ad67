package dsh

import (
	"strings"
	"testing"
)

func TestParseURL(t *testing.T) {
	tests := []struct {
		raw    string
		remote bool
		want   string // the URL taken, or "" when it is refused
		says   string // what the refusal says
	}{
		{raw: "http://127.0.0.1:3080", want: "http://127.0.0.1:3080"},
		{raw: "http://127.0.0.1:3080/", want: "http://127.0.0.1:3080"},
		{raw: "https://localhost", want: "https://localhost"},
		{raw: "HTTP://LocalHost:1", want: "http://LocalHost:1"},
		{raw: "http://127.255.0.9:80", want: "http://127.255.0.9:80"},
		{raw: "http://[::1]:3080", want: "http://[::1]:3080"},
		{raw: "https://host.example:8443", remote: true, want: "https://host.example:8443"},
		{raw: "http://0.0.0.0:3080", remote: true, want: "http://0.0.0.0:3080"},

		{raw: "", says: "scheme has to be http or https"},
		{raw: "127.0.0.1:3080", says: "http://127.0.0.1:3080"},
		{raw: "localhost:3080", says: "scheme has to be http or https"},
		{raw: "ws://127.0.0.1:3080", says: "scheme has to be http or https"},
		{raw: "file:///etc/hosts", says: "scheme has to be http or https"},
		{raw: "http:127.0.0.1", says: "names no host"},
		{raw: "http://", says: "names no host"},
		{raw: "http://:3080", says: "names no host"},
		{raw: "http:///api", says: "names no host"},
		{raw: "http://127.0.0.1:3080/api", says: "path"},
		{raw: "http://127.0.0.1:3080//", says: "path"},
		{raw: "http://127.0.0.1:3080?", says: "query"},
		{raw: "http://127.0.0.1:3080/?token=s3cret", says: "query"},
		{raw: "http://127.0.0.1:3080#s3cret", says: "fragment"},
		{raw: "http://127.0.0.1:3080/#", says: "fragment"},
		{raw: "http://127.0.0.1:", says: "port"},
		{raw: "http://127.0.0.1:0", says: "port"},
		{raw: "http://127.0.0.1:65536", says: "port"},
		{raw: "http://127.0.0.1:port", says: "not a URL"},
		{raw: "http://me:s3cret@127.0.0.1:3080", says: "user info"},
		{raw: "http://me@127.0.0.1:3080", says: "user info"},
		{raw: "http://me:s3cret@127.0.0.1:bad", says: "not a URL"},
		{raw: "http://me:s3%zzcret@127.0.0.1", says: "not a URL"},
		{raw: "http://127.0.0.1/s3cret@x?y=s3cret", says: "path"},
		{raw: "http://192.168.0.4:3080", says: "DSH_ALLOW_REMOTE_HOST=true"},
		{raw: "http://0.0.0.0:3080", says: "DSH_ALLOW_REMOTE_HOST=true"},
		{raw: "http://[::]:3080", says: "DSH_ALLOW_REMOTE_HOST=true"},
		{raw: "http://[::1%25lo]:3080", says: "DSH_ALLOW_REMOTE_HOST=true"},
		{raw: "http://localhost.example:3080", says: "DSH_ALLOW_REMOTE_HOST=true"},
		{raw: "http://127.0.0.1.example", says: "DSH_ALLOW_REMOTE_HOST=true"},
		{raw: "http://127.1:3080", says: "DSH_ALLOW_REMOTE_HOST=true"},
	}
	for _, test := range tests {
		t.Run(test.raw, func(t *testing.T) {
			u, err := ParseURL(test.raw, test.remote)
			if test.want != "" {
				if err != nil || u.String() != test.want {
					t.Fatalf("got %v, %v; want %s", u, err, test.want)
				}
				return
			}
			if err == nil {
				t.Fatalf("%s was taken", u)
			}
			if !strings.Contains(err.Error(), test.says) {
				t.Errorf("%q does not say %q", err, test.says)
			}
			if strings.Contains(err.Error(), "s3cret") {
				t.Errorf("%q shows the secret", err)
			}
		})
	}
}

func TestParseURLErrorNamesTheValue(t *testing.T) {
	for raw, shown := range map[string]string{
		"http://192.168.0.4:3080":    `"http://192.168.0.4:3080"`,
		"http://me:pw@127.0.0.1:1":   `"…@127.0.0.1:1"`,
		"http://127.0.0.1/?token=pw": `"http://127.0.0.1/?…"`,
	} {
		if _, err := ParseURL(raw, false); err == nil || !strings.Contains(err.Error(), shown) {
			t.Errorf("%s: %v does not show %s", raw, err, shown)
		}
	}
}

func TestProxyIsForRemoteHostsOnly(t *testing.T) {
	for address, proxied := range map[string]bool{
		"http://127.0.0.1:3080":  false,
		"http://localhost:3080":  false,
		"http://[::1]:3080":      false,
		"https://host.example:1": true,
	} {
		base, err := ParseURL(address, true)
		if err != nil {
			t.Fatal(err)
		}
		if got := newTransport(base).Proxy != nil; got != proxied {
			t.Errorf("%s: looks for a proxy: %v, want %v", address, got, proxied)
		}
	}
}
