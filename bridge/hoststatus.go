package bridge

import (
	"context"
	"encoding/json"

	"dsh-agentlink/internal/dsh"
	"dsh-agentlink/internal/tasks"
)

type presetView struct {
	ID      string `json:"id"`
	Default bool   `json:"default,omitempty"`
	Broken  bool   `json:"broken,omitempty"`
}

type providerView struct {
	ID string `json:"id"`
	// Active says that the host has a route to it, Key whether it has a key for it under the usual name.
	Active bool     `json:"active"`
	Key    dsh.Key  `json:"key,omitempty"`
	Models []string `json:"models,omitempty"`
	// Failure is why its models could not be listed.
	Failure string `json:"failure,omitempty"`
}

// maxFailureWords bounds what a provider says of its failure.
const maxFailureWords = 200

type hostStatusAnswer struct {
	URL           string `json:"url"`
	Wire          string `json:"wire"` // the host versions that speak like this one
	HostVersion   string `json:"hostVersion,omitempty"`
	BridgeVersion string `json:"bridgeVersion"`
	Provider      string `json:"provider,omitempty"`
	Model         string `json:"model,omitempty"`
	// Providers are left out when the host does not list them.
	Providers        []providerView `json:"providers,omitempty"`
	Presets          []presetView   `json:"presets"`
	AttachedSessions int            `json:"attachedSessions"`
	Tasks            int            `json:"tasks"`
	// Running are the tasks of this home that are at work now, with the directories they hold.
	Running []heldClaim `json:"running,omitempty"`
	// Workspaces are the directories that the host's own user interface knows.
	Workspaces []string `json:"workspaces,omitempty"`
}

// hostStatus tells what host there is and what a new task would run on.
func (b *Bridge) hostStatus(ctx context.Context, raw json.RawMessage) (any, error) {
	var args struct{}
	if err := decodeArgs(raw, &args); err != nil {
		return nil, err
	}
	if err := b.mux.Connected(ctx); err != nil {
		return nil, err
	}
	about, err := b.host.Describe(ctx)
	if err != nil {
		return nil, err
	}
	presets, err := b.host.Presets(ctx)
	if err != nil {
		return nil, err
	}
	all, _, err := b.tasks.Show()
	if err != nil {
		return nil, err
	}
	answer := hostStatusAnswer{URL: b.hostURL, Wire: dsh.SpokenVersions, HostVersion: b.opts.HostVersion, BridgeVersion: b.opts.Version,
		Provider: about.Provider, Model: about.Model, Presets: []presetView{}, AttachedSessions: about.AttachedSessions, Tasks: len(all)}
	for _, p := range presets {
		answer.Presets = append(answer.Presets, presetView{ID: p.ID, Default: p.IsDefault, Broken: isBroken(p)})
	}
	answer.Running, err = b.atWork(ctx, all)
	if err != nil {
		return nil, err
	}
	b.describeModels(ctx, &answer)
	return answer, nil
}

// atWork lists the tasks that run, by what the host says.
func (b *Bridge) atWork(ctx context.Context, all []tasks.Task) ([]heldClaim, error) {
	rows, err := b.rows(ctx)
	if err != nil {
		return nil, err
	}
	var list []heldClaim
	for _, t := range all {
		if !rows.of(t.SessionID).Running {
			continue
		}
		held := heldClaim{TaskID: t.TaskID}
		if claim, found, err := b.claims.Get(t.TaskID); err == nil && found {
			held = claimOf(claim)
		}
		list = append(list, held)
	}
	return list, nil
}

// describeModels adds what some hosts tell and others do not; its absence is no failure.
func (b *Bridge) describeModels(ctx context.Context, answer *hostStatusAnswer) {
	if providers, err := b.host.Providers(ctx); err == nil {
		for _, p := range providers {
			view := providerView{ID: p.ID, Active: p.Active, Key: p.Key, Models: p.Models}
			view.Failure, _ = shorten(p.Failure, maxFailureWords)
			answer.Providers = append(answer.Providers, view)
		}
	}
	if workspaces, err := b.host.Workspaces(ctx); err == nil {
		for _, w := range workspaces {
			answer.Workspaces = append(answer.Workspaces, w.Path)
		}
	}
}

// isBroken reports whether the host says that it cannot use a preset.
func isBroken(p dsh.Preset) bool {
	switch string(p.Broken) {
	case "", "null", "false":
		return false
	}
	return true
}
