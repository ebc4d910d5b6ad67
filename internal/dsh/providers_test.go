package dsh

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A provider counts when requests can be sent to it, or when somebody has declared it.
func TestProviders(t *testing.T) {
	list := answering(t, `{"ok":true,"value":{"providers":[
		{"provider":"deepseek-official","active":true},{"provider":"somebody","active":false,"declared":false},{"provider":"mine","active":false,"declared":true}]}}`)
	models := answering(t, `{"ok":true,"value":{"groups":[{"id":"deepseek-official","models":[{"id":"flash"},{"id":"pro"}]},{"id":"unlisted","models":[{"id":"x"}]}],
		"failures":[{"id":"mine","name":"Mine","message":"no key"}]}}`)
	keys := answering(t, `{"ok":true,"value":{"credentials":{"DEEPSEEK_API_KEY":{"configured":true,"source":"env","writable":false},"MINE_API_KEY":{"configured":false,"writable":true}}}}`)
	c := clientOf(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/llm.models"):
			models(w, r)
		case strings.HasSuffix(r.URL.Path, "/credentials.describe"):
			keys(w, r)
		default:
			list(w, r)
		}
	})
	got, err := c.Providers(t.Context())
	want := []Provider{{ID: "deepseek-official", Active: true, Key: KeyConfigured, Models: []string{"flash", "pro"}}, {ID: "mine", Key: KeyMissing, Failure: "no key"}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
}

func TestWorkspaces(t *testing.T) {
	c := clientOf(t, Options{}, answering(t, `{"ok":true,"value":{"items":[{"workspaceId":"w","path":"/home/dev/a","title":"a","sessionIds":["s-1","not an id"]}],"archivedSessionIds":[]}}`))
	got, err := c.Workspaces(t.Context())
	if diff := cmp.Diff([]Workspace{{Path: "/home/dev/a", Sessions: []string{"s-1"}}}, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
}

func TestKeyName(t *testing.T) {
	for provider, want := range map[string]string{"deepseek-official": "DEEPSEEK_API_KEY", "openai": "OPENAI_API_KEY", "azure-openai-responses": "AZURE_OPENAI_RESPONSES_API_KEY", "a..b": "A_B_API_KEY"} {
		if got := keyName(provider); got != want {
			t.Errorf("%s: %s, want %s", provider, got, want)
		}
	}
}
