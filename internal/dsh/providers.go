package dsh

import (
	"context"

	"github.com/google/uuid"
	"github.com/tidwall/gjson"
)

// Provider is a source of models.
type Provider struct {
	ID string
	// Active says that requests can be sent to it: it is configured, credentials included.
	Active bool
	// Models are the ids of its models; empty for one that is not active or that could not be asked.
	Models []string
	// Failure is why its models could not be listed; empty when they could.
	Failure string
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
	bad = decodeModels(models, providers)
	return providers, refusal(modelsMethod, bad)
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
