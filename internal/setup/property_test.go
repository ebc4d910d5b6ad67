package setup

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// checkTOML holds any text against the promise: what parses is left as it was by adding and removing, byte for byte, and
// an entry of before goes without touching anything else.
func checkTOML(t interface{ Fatalf(string, ...any) }, data []byte) {
	document, err := parseTOML(data)
	if err != nil {
		return
	}
	base, err := removeTOML(data, names...)
	if err != nil {
		t.Fatalf("%q: remove: %v", data, err)
	}
	bare, err := parseTOML(base)
	if err != nil || !same(without(document, tomlTable, names), without(bare, tomlTable, nil)) {
		t.Fatalf("%q became %q by a removal: %v", data, base, err)
	}
	added, err := addTOML(base, codexEntry(testServer))
	if err != nil {
		t.Fatalf("%q: add: %v", base, err)
	}
	full, err := parseTOML(added)
	if err != nil || !same(codexServers(full)[Name], codexValue(testServer)) || !same(without(bare, tomlTable, nil), without(full, tomlTable, names)) {
		t.Fatalf("%q became %q: %v", base, added, err)
	}
	if back, err := removeTOML(added, Name); err != nil || !bytes.Equal(back, base) {
		t.Fatalf("%q became %q and then %q: %v", base, added, back, err)
	}
}

// checkJSON is the same for JSON. An object that is left empty forgets the white space in it, and servers that were
// empty go, so that only texts with something beside the entry come back byte for byte.
func checkJSON(t interface{ Fatalf(string, ...any) }, data []byte) {
	document, err := parseJSON(data)
	if err != nil {
		return
	}
	base, err := removeJSON(data, names...)
	if err != nil {
		return // refused, such as servers that are given twice
	}
	bare, err := parseJSON(base)
	if err != nil || !same(without(document, jsonTable, names), without(bare, jsonTable, nil)) {
		t.Fatalf("%q became %q by a removal: %v", data, base, err)
	}
	entry := claudeEntry{Type: "stdio", Command: testServer.Command, Args: []string{}, Env: testServer.Env}
	added, err := addJSON(base, Name, entry)
	if err != nil {
		return // as above
	}
	full, err := parseJSON(added)
	if err != nil || !same(claudeServers(full)[Name], claudeValue(entry)) || !same(without(bare, jsonTable, nil), without(full, jsonTable, names)) {
		t.Fatalf("%q became %q: %v", base, added, err)
	}
	back, err := removeJSON(added, Name)
	if err != nil {
		t.Fatalf("%q: %v", added, err)
	}
	again, err := parseJSON(back)
	if err != nil || !same(without(bare, jsonTable, nil), without(again, jsonTable, nil)) {
		t.Fatalf("%q came back as %q: %v", base, back, err)
	}
	if keepsBytes(bare) && !bytes.Equal(back, base) {
		t.Fatalf("%q became %q and then %q", base, added, back)
	}
}

func keepsBytes(document map[string]any) bool {
	servers, ok := document[jsonTable].(map[string]any)
	if !ok {
		return len(document) > 0
	}
	return len(servers) > 0
}

func FuzzTOML(f *testing.F) {
	for _, c := range tomlShapes {
		f.Add([]byte(c.before))
		f.Add([]byte(c.after))
	}
	f.Add([]byte("mcp_servers = { dsh_agentlink = { a = [ \"]\", '}' ] }, x = 1979-05-27 07:32:00, dsh_collab = {} }"))
	f.Add([]byte("[mcp_servers . \"dsh_collab\" ] # x\n a . b = '''\n'''\n[[ mcp_servers.dsh-agentlink ]]\nx = nan"))
	f.Fuzz(func(t *testing.T, data []byte) { checkTOML(t, data) })
}

func FuzzJSON(f *testing.F) {
	for _, c := range jsonShapes {
		f.Add([]byte(c.before))
		f.Add([]byte(c.after))
	}
	f.Fuzz(func(t *testing.T, data []byte) { checkJSON(t, data) })
}

func TestAnyTOML(t *testing.T) {
	key := rapid.SampledFrom([]string{"a", "b-1", `"q.r"`, `'l'`, "dsh_agentlink", "dsh_collab", `"dsh_agentlink"`, "mcp_servers"})
	value := rapid.SampledFrom([]string{`"s # \" ]"`, `'}'`, "1", "1_000", "nan", "1979-05-27 07:32:00", "[1, [2], # x\n 3]", "{ a = { b = \"}\" }, c = [] }",
		"\"\"\"\n[mcp_servers.dsh_agentlink]\n\"\"\"\"\"", "'''\n#'''", "{}", "true"})
	space := rapid.SampledFrom([]string{"", " ", "\t", "  "})
	comment := rapid.SampledFrom([]string{"", "", " # c", "# [x]"})
	rapid.Check(t, func(rt *rapid.T) {
		path := func(label string) string {
			keys := rapid.SliceOfN(key, 1, 3).Draw(rt, label)
			if rapid.Bool().Draw(rt, "server") {
				keys = append([]string{"mcp_servers"}, keys...)
			}
			return strings.Join(keys, space.Draw(rt, "space")+"."+space.Draw(rt, "space"))
		}
		eol := rapid.SampledFrom([]string{"\n", "\r\n"}).Draw(rt, "line end")
		var text string
		for range rapid.IntRange(0, 8).Draw(rt, "lines") {
			var line string
			switch rapid.IntRange(0, 4).Draw(rt, "kind") {
			case 0:
				line = "[" + space.Draw(rt, "space") + path("table") + space.Draw(rt, "space") + "]"
			case 1:
				line = "[[" + path("list") + "]]"
			case 2, 3:
				line = path("key") + space.Draw(rt, "space") + "=" + space.Draw(rt, "space") + value.Draw(rt, "value")
			}
			next := text + space.Draw(rt, "space") + line + comment.Draw(rt, "comment") + eol
			if _, err := parseTOML([]byte(next)); err == nil {
				text = next // a line that would make it invalid is left out
			}
		}
		if rapid.Bool().Draw(rt, "cut") {
			text = strings.TrimSuffix(text, eol)
		}
		if rapid.Bool().Draw(rt, "bom") {
			text = string(bom) + text
		}
		checkTOML(rt, []byte(text))
	})
}

func TestAnyJSON(t *testing.T) {
	names := rapid.SampledFrom([]string{"a", "b", "mcpServers", "dsh_agentlink", "dsh_collab", "é\\\""})
	scalars := rapid.SampledFrom([]string{"1", "-0.50", "12345678901234567890123", "1e999", `"x\u0041}"`, "null", "true", "[]", "{}", "[ 1,{}]"})
	rapid.Check(t, func(rt *rapid.T) {
		space := rapid.SampledFrom([]string{"", " ", "\n", "\r\n  ", "\n\t", "\n\n "})
		var object func(depth int) string
		object = func(depth int) string {
			var members []string
			var seen []string
			for range rapid.IntRange(0, 3).Draw(rt, "members") {
				name := names.Draw(rt, "name")
				if slices.Contains(seen, name) {
					continue
				}
				seen = append(seen, name)
				quoted, err := json.Marshal(name)
				if err != nil {
					rt.Fatal(err)
				}
				value := scalars.Draw(rt, "value")
				if name == "mcpServers" || depth < 2 && rapid.Bool().Draw(rt, "deeper") {
					value = object(depth + 1)
				}
				members = append(members, space.Draw(rt, "space")+string(quoted)+space.Draw(rt, "space")+":"+space.Draw(rt, "space")+value)
			}
			return "{" + strings.Join(members, space.Draw(rt, "space")+",") + space.Draw(rt, "space") + "}"
		}
		checkJSON(rt, []byte(object(0)+space.Draw(rt, "space")))
	})
}
