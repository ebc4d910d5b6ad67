package stdio

import (
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"dsh-agentlink/internal/labmodel"
)

// notices collects a client's notifications of one kind.
type notices struct {
	mu   sync.Mutex
	list []map[string]any
	came chan struct{}
}

func (r *rig) notices(method string) *notices {
	n := &notices{came: make(chan struct{}, 1)}
	r.client.OnNotification(func(got mcp.JSONRPCNotification) {
		if got.Method != method {
			return
		}
		n.mu.Lock()
		n.list = append(n.list, got.Params.AdditionalFields)
		n.mu.Unlock()
		select {
		case n.came <- struct{}{}:
		default:
		}
	})
	return n
}

func (n *notices) all() []map[string]any {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.list)
}

// until waits for a notification that is as wanted.
func (n *notices) until(t *testing.T, what string, wanted func(map[string]any) bool) map[string]any {
	t.Helper()
	limit := time.After(30 * time.Second)
	for {
		n.mu.Lock()
		for _, params := range n.list {
			if wanted(params) {
				n.mu.Unlock()
				return params
			}
		}
		n.mu.Unlock()
		select {
		case <-n.came:
		case <-limit:
			t.Fatalf("no notification that is %s in %v", what, n.list)
		}
	}
}

// A client that gives a progress token learns during a wait where the task is: the step, the tool that runs, the time.
func TestProgress(t *testing.T) {
	for _, version := range generations {
		t.Run(version, func(t *testing.T) {
			r := newRig(t, version, "", nil)
			progress := r.notices("notifications/progress")
			command := labmodel.Step{Tool: "bash", Args: json.RawMessage(`{"command":"sleep 2","description":"wait"}`)}
			result, err := r.client.CallTool(t.Context(), mcp.CallToolRequest{Params: mcp.CallToolParams{Name: "dsh_delegate",
				Meta:      &mcp.Meta{ProgressToken: "token-1"},
				Arguments: map[string]any{"prompt": labmodel.Script{Steps: []labmodel.Step{command, {Say: "done"}}}.Prompt("go"), "cwd": r.dir, "waitSeconds": 20}}})
			if err != nil || result.IsError {
				t.Fatal(result, err)
			}
			params := progress.until(t, "in the command", func(p map[string]any) bool {
				message, _ := p["message"].(string)
				return strings.HasPrefix(message, "running, turn 1, step 1, bash, ")
			})
			if params["progressToken"] != "token-1" || params["total"] != 20.0 {
				t.Errorf("the notification is %v", params)
			}
			last := -1.0
			for _, p := range progress.all() {
				now, ok := p["progress"].(float64)
				if !ok || now < last {
					t.Errorf("progress went from %v to %v", last, p["progress"])
				}
				last = now
			}
		})
	}
}

func TestNoProgressForWhoDoesNotAsk(t *testing.T) {
	r := newRig(t, generations[0], "", nil)
	progress := r.notices("notifications/progress")
	if _, code := r.call("dsh_delegate", map[string]any{"prompt": "hello", "cwd": r.dir, "waitSeconds": 20}); code != "" {
		t.Fatal(code)
	}
	if came := progress.all(); len(came) > 0 {
		t.Errorf("notifications came: %v", came)
	}
}

// The resources tell what dsh_list and dsh_status tell, and a subscriber is told when to read them again.
func TestResources(t *testing.T) {
	for _, version := range generations {
		t.Run(version, func(t *testing.T) { resources(t, version) })
	}
}

// follow subscribes to a resource, in the way of the client's generation, and returns how to end that.
func (r *rig) follow(version, uri string) (end func()) {
	r.t.Helper()
	if version == generations[1] {
		end, err := r.client.ListenAsync(r.t.Context(), mcp.SubscriptionFilter{ResourceSubscriptions: []string{uri}}, nil)
		if err != nil {
			r.t.Fatal(err)
		}
		return end
	}
	//lint:ignore SA1019 this is what clients of that generation do
	if err := r.client.Subscribe(r.t.Context(), mcp.SubscribeRequest{Params: mcp.SubscribeParams{URI: uri}}); err != nil {
		r.t.Fatal(err)
	}
	return func() {
		//lint:ignore SA1019 the same
		if err := r.client.Unsubscribe(r.t.Context(), mcp.UnsubscribeRequest{Params: mcp.UnsubscribeParams{URI: uri}}); err != nil {
			r.t.Error(err)
		}
	}
}

func resources(t *testing.T, version string) {
	r := newRig(t, version, "", nil)
	updated := r.notices("notifications/resources/updated")
	defer r.follow(version, "dsh://tasks")()
	answer, code := r.call("dsh_delegate", map[string]any{"prompt": labmodel.Script{Steps: []labmodel.Step{{Say: "hello"}}}.Prompt("go"), "cwd": r.dir, "waitSeconds": 20})
	if code != "" {
		t.Fatal(code)
	}
	id, _ := answer["taskId"].(string)
	updated.until(t, "of the list", func(p map[string]any) bool { return p["uri"] == "dsh://tasks" })
	read := func(uri string) map[string]any {
		t.Helper()
		got, err := r.client.ReadResource(t.Context(), mcp.ReadResourceRequest{Params: mcp.ReadResourceParams{URI: uri}})
		if err != nil || len(got.Contents) != 1 {
			t.Fatal(uri, got, err)
		}
		text, ok := got.Contents[0].(mcp.TextResourceContents)
		if !ok || text.URI != uri || text.MIMEType != "application/json" {
			t.Fatalf("%s is %+v", uri, got.Contents[0])
		}
		var content map[string]any
		if err := json.Unmarshal([]byte(text.Text), &content); err != nil {
			t.Fatal(err)
		}
		return content
	}
	if rows, _ := read("dsh://tasks")["tasks"].([]any); len(rows) != 1 {
		t.Errorf("the list has %v", rows)
	}
	one := "dsh://tasks/" + id
	defer r.follow(version, one)()
	if got := read(one); got["taskId"] != id || got["execution"] != "turn_completed" {
		t.Errorf("the task is %v", got)
	}
	if _, code := r.call("dsh_followup", map[string]any{"taskId": id, "prompt": "again", "waitSeconds": 20}); code != "" {
		t.Fatal(code)
	}
	updated.until(t, "of the task", func(p map[string]any) bool { return p["uri"] == one })
	if _, err := r.client.ReadResource(t.Context(), mcp.ReadResourceRequest{Params: mcp.ReadResourceParams{URI: "dsh://tasks/dsh_ffffffffffff"}}); err == nil || !strings.Contains(err.Error(), "task_not_found") {
		t.Errorf("a task that is not there: %v", err)
	}
	list, err := r.client.ListResources(t.Context(), mcp.ListResourcesRequest{})
	templates, failed := r.client.ListResourceTemplates(t.Context(), mcp.ListResourceTemplatesRequest{})
	if err != nil || failed != nil || len(list.Resources) != 1 || len(templates.ResourceTemplates) != 1 {
		t.Errorf("resources %v (%v), templates %v (%v)", list, err, templates, failed)
	}
}

func TestSupervisePrompt(t *testing.T) {
	r := newRig(t, generations[0], "", nil)
	got, err := r.client.GetPrompt(t.Context(), mcp.GetPromptRequest{Params: mcp.GetPromptParams{Name: "supervise", Arguments: map[string]string{"task": "paint it", "cwd": "/w"}}})
	if err != nil || len(got.Messages) != 1 {
		t.Fatal(got, err)
	}
	text, _ := got.Messages[0].Content.(mcp.TextContent)
	for _, words := range []string{"dsh_delegate", `until: "attention"`, "Never decide either yourself", "The task: paint it", "The directory: /w"} {
		if !strings.Contains(text.Text, words) {
			t.Errorf("the routine does not say %q", words)
		}
	}
}
