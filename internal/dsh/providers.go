package dsh

import (
	"context"
	"strings"

	"github.com/google/uuid"
	"github.com/tidwall/gjson"
)

// Provider is a source of models.
type Provider struct {
	ID string
	// Active says that the host has a route to it. Whether the route has a key is not said by that.
	Active bool
	// Key says whether the host has a key for it under the usual name. A host can be told to look under another one.
	Key Key
	// Models are the ids of its models; empty for one that is not active or that could not be asked.
	Models []string
	// Failure is why its models could not be listed; empty when they could.
	Failure string
}

// Key says whether a host has a key. Its value is never asked for.
type Key string

// What can be known of a key.
const (
	KeyConfigured Key = "configured"
	KeyMissing    Key = "missing"
	KeyUnknown    Key = "" // the host does not tell
)

// usualKeys are the names of keys that do not follow from the provider's, see [keyName].
var usualKeys = map[string]string{"deepseek-official": "DEEPSEEK_API_KEY"}

// keyName is the name under which the host's own user interface stores a provider's key.
func keyName(provider string) string {
	if name := usualKeys[provider]; name != "" {
		return name
	}
	return strings.Join(strings.FieldsFunc(strings.ToUpper(provider), func(r rune) bool {
		return (r < 'A' || r > 'Z') && (r < '0' || r > '9')
	}), "_") + "_API_KEY"
}

// Workspace is a directory that the host's own user interface knows.
type Workspace struct {
	Path     string
	Sessions []string // ids of the sessions in it
}

// Providers implements [Host]. A provider that is neither active nor declared in the host's settings is left out: the
// host knows dozens by name.
func (c *Client) Providers(ctx context.Context) ([]Provider, error) {
	const listMethod, modelsMethod = "llm.providers", "llm.models"
	list, err := c.call(ctx, listMethod, uuid.NewString(), struct{}{})
	if err != nil {
		return nil, err
	}
	models, err := c.call(ctx, modelsMethod, uuid.NewString(), struct{}{})
	if err != nil {
		return nil, err
	}
	providers, bad := decodeProviders(list)
	if bad != "" {
		return nil, refusal(listMethod, bad)
	}
	if bad = decodeModels(models, providers); bad != "" {
		return nil, refusal(modelsMethod, bad)
	}
	return providers, c.describeKeys(ctx, providers)
}

// describeKeys asks which of the providers have a key. A host that does not tell is no failure.
func (c *Client) describeKeys(ctx context.Context, providers []Provider) error {
	names := make([]string, 0, len(providers))
	for _, p := range providers {
		names = append(names, keyName(p.ID))
	}
	value, err := c.call(ctx, "credentials.describe", uuid.NewString(), struct {
		Refs []string `json:"refs"`
	}{names})
	if kind := KindOf(err); kind == Refused || kind == Incompatible {
		return nil
	}
	if err != nil {
		return err
	}
	for i := range providers {
		switch value.Get("credentials." + names[i] + ".configured").Type {
		case gjson.True:
			providers[i].Key = KeyConfigured
		case gjson.False:
			providers[i].Key = KeyMissing
		}
	}
	return nil
}

func decodeProviders(value gjson.Result) (providers []Provider, bad string) {
	root(value, &bad).list("providers", func(o object) {
		p := Provider{ID: o.text("provider"), Active: o.flag("active")}
		if p.Active || o.optFlag("declared") {
			providers = append(providers, p)
		}
	})
	return providers, bad
}

// decodeModels adds the models of each provider.
func decodeModels(value gjson.Result, providers []Provider) (bad string) {
	of := func(id string) *Provider {
		for i := range providers {
			if providers[i].ID == id {
				return &providers[i]
			}
		}
		return &Provider{} // one that is left out
	}
	o := root(value, &bad)
	o.list("groups", func(group object) {
		p := of(group.text("id"))
		group.list("models", func(m object) { p.Models = append(p.Models, m.text("id")) })
	})
	for failure := range elements(value.Get("failures")) {
		p := of(stringIn(failure.Get("id")))
		p.Failure = stringIn(failure.Get("message"))
	}
	return bad
}

// Workspaces implements [Host].
func (c *Client) Workspaces(ctx context.Context) ([]Workspace, error) {
	const method = "workspace.list"
	value, err := c.call(ctx, method, uuid.NewString(), struct{}{})
	if err != nil {
		return nil, err
	}
	list, bad := decodeWorkspaces(value)
	return list, refusal(method, bad)
}

func decodeWorkspaces(value gjson.Result) (list []Workspace, bad string) {
	root(value, &bad).list("items", func(o object) {
		w := Workspace{Path: o.text("path")}
		for id := range elements(o.json.Get(o.prefix + "sessionIds")) {
			if s := idIn(id); s != "" {
				w.Sessions = append(w.Sessions, s)
			}
		}
		list = append(list, w)
	})
	return list, bad
}
