package readme

import (
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/mark3labs/mcp-go/mcp"
)

// The table of tools has every tool that a bridge offers, and no other.
func TestToolTable(t *testing.T) {
	x := newTrouble(t)
	c := x.connect()
	defer c.Close()
	offered, err := c.ListTools(t.Context(), mcp.ListToolsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	var real, listed []string
	for _, tool := range offered.Tools {
		real = append(real, tool.Name)
	}
	for _, cell := range firstColumn(page(t, "README.md"), "tool") {
		for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cell, -1) {
			listed = append(listed, m[1])
		}
	}
	slices.Sort(real)
	slices.Sort(listed)
	if diff := cmp.Diff(real, listed); diff != "" {
		t.Errorf("a bridge's tools (-) and those in README.md (+):\n%s", diff)
	}
}
