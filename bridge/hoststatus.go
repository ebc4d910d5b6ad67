package bridge

import (
	"context"
	"encoding/json"

	"dsh-agentlink/internal/dsh"
)

type presetView struct {
	ID      string `json:"id"`
	Default bool   `json:"default,omitempty"`
	Broken  bool   `json:"broken,omitempty"`
}

type hostStatusAnswer struct {
	URL              string       `json:"url"`
	Wire             string       `json:"wire"` // the host versions that speak like this one
	HostVersion      string       `json:"hostVersion,omitempty"`
	BridgeVersion    string       `json:"bridgeVersion"`
	Provider         string       `json:"provider,omitempty"`
	Model            string       `json:"model,omitempty"`
	Presets          []presetView `json:"presets"`
	AttachedSessions int          `json:"attachedSessions"`
	Tasks            int          `json:"tasks"`
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
	all, _, err := b.tasks.List()
	if err != nil {
		return nil, err
	}
	answer := hostStatusAnswer{URL: b.hostURL, Wire: dsh.SpokenVersions, HostVersion: b.opts.HostVersion, BridgeVersion: b.opts.Version,
		Provider: about.Provider, Model: about.Model, Presets: []presetView{}, AttachedSessions: about.AttachedSessions, Tasks: len(all)}
	for _, p := range presets {
		answer.Presets = append(answer.Presets, presetView{ID: p.ID, Default: p.IsDefault, Broken: isBroken(p)})
	}
	return answer, nil
}

// isBroken reports whether the host says that it cannot use a preset.
func isBroken(p dsh.Preset) bool {
	switch string(p.Broken) {
	case "", "null", "false":
		return false
	}
	return true
}
