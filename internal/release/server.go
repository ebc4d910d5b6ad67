package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"dsh-agentlink/internal/config"
)

// serverSchema is the release of the MCP registry's format that server.json is written in.
const serverSchema = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"

// server is what the MCP registry has to know of a release.
type server struct {
	Schema      string          `json:"$schema"`
	Name        string          `json:"name"` // a namespace that the publisher has, a slash, and a name in it
	Title       string          `json:"title"`
	Description string          `json:"description"`
	Version     string          `json:"version"`
	Packages    []serverPackage `json:"packages"`
}

type serverPackage struct {
	RegistryType string `json:"registryType"`
	Identifier   string `json:"identifier"` // where the bundle is downloaded from
	FileSha256   string `json:"fileSha256"`
	Transport    struct {
		Type string `json:"type"`
	} `json:"transport"`
	EnvironmentVariables []serverVariable `json:"environmentVariables"`
}

type serverVariable struct {
	Name        string `json:"name"`
	Description string `json:"description"`
}

// serverJSON describes a release whose bundles (.mcpb) are below base, by the checksums that came with them.
func serverJSON(name, version, base string, checksums io.Reader) ([]byte, error) {
	s := server{Schema: serverSchema, Name: name, Title: "dsh-agentlink", Version: version,
		Description: "Hand whole tasks to a DeepSeek Harness agent and stay in charge of it."}
	lines := bufio.NewScanner(checksums)
	for lines.Scan() {
		sum, file, ok := strings.Cut(lines.Text(), "  ")
		if !ok || !strings.HasSuffix(file, ".mcpb") {
			continue
		}
		p := serverPackage{RegistryType: "mcpb", Identifier: strings.TrimSuffix(base, "/") + "/" + file, FileSha256: sum}
		p.Transport.Type = "stdio"
		for _, v := range config.Variables {
			p.EnvironmentVariables = append(p.EnvironmentVariables, serverVariable{Name: v.Name, Description: v.Help})
		}
		s.Packages = append(s.Packages, p)
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(s.Packages) == 0 {
		return nil, fmt.Errorf("the checksums name no bundle (.mcpb)")
	}
	data, err := json.MarshalIndent(s, "", "  ")
	return append(data, '\n'), err
}

// manifest is what an .mcpb bundle, a zip file, holds beside the binary at server/dsh-agentlink.
func manifest(version string) ([]byte, error) {
	type author struct {
		Name string `json:"name"`
	}
	type run struct {
		Command string   `json:"command"`
		Args    []string `json:"args"`
	}
	type entry struct {
		Type       string `json:"type"`
		EntryPoint string `json:"entry_point"`
		Config     run    `json:"mcp_config"`
	}
	data, err := json.MarshalIndent(struct {
		Version     string `json:"manifest_version"`
		Name        string `json:"name"`
		Release     string `json:"version"`
		Description string `json:"description"`
		Author      author `json:"author"`
		License     string `json:"license"`
		Server      entry  `json:"server"`
	}{"0.3", "dsh-agentlink", version, "Hand whole tasks to a DeepSeek Harness agent and stay in charge of it.", author{"the dsh-agentlink authors"}, "MIT",
		entry{"binary", bundled, run{"${__dirname}/" + bundled, []string{}}}}, "", "  ")
	return append(data, '\n'), err
}
