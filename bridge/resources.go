package bridge

import (
	"context"
	"encoding/json"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// The resources that mirror the tasks, for clients that show such things.
const (
	tasksURI    = "dsh://tasks"
	taskURI     = "dsh://tasks/{taskId}"
	contentJSON = "application/json"
)

// updateEvery is the shortest time between two notifications that a resource has changed.
const updateEvery = 500 * time.Millisecond

// newTasksEvery is how often the home is looked through for tasks of other processes while somebody watches the list.
const newTasksEvery = 5 * time.Second

func (b *Bridge) registerResources(s *server.MCPServer) {
	s.AddResource(mcp.NewResource(tasksURI, "Tasks", mcp.WithResourceDescription("The tasks of this home, as dsh_list tells them."), mcp.WithMIMEType(contentJSON)),
		func(ctx context.Context, _ mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
			return b.resource(ctx, tasksURI, b.list, map[string]any{"state": stateAll, "limit": maxList})
		})
	s.AddResourceTemplate(mcp.NewResourceTemplate(taskURI, "Task", mcp.WithTemplateDescription("How a task stands, as dsh_status tells it."), mcp.WithTemplateMIMEType(contentJSON)),
		func(ctx context.Context, request mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
			id := strings.TrimPrefix(request.Params.URI, tasksURI+"/")
			return b.resource(ctx, request.Params.URI, b.status, taskArgs{TaskID: id})
		})
}

// resource reads a resource through the tool that tells the same.
func (b *Bridge) resource(ctx context.Context, uri string, handle func(context.Context, json.RawMessage) (any, error), arguments any) ([]mcp.ResourceContents, error) {
	raw, err := json.Marshal(arguments)
	if err != nil {
		return nil, err
	}
	answer, err := handle(ctx, raw)
	if err != nil {
		return nil, asError(err, b.hostURL)
	}
	text, err := encode(answer)
	if err != nil {
		return nil, err
	}
	return []mcp.ResourceContents{mcp.TextResourceContents{URI: uri, MIMEType: contentJSON, Text: text}}, nil
}

// subscriptions are the resources that the client wants to be told of.
type subscriptions struct {
	mu    sync.Mutex
	byURI map[string]*subscription
}

// subscription is one resource that is watched, for as many as asked for it.
type subscription struct {
	asked int
	end   context.CancelFunc
}

// Hooks are what a server that the bridge is registered with has to call. A client of the older generation of the
// protocol subscribes to one resource after the other, one of the newer names them all when it begins to listen.
func (b *Bridge) Hooks() *server.Hooks {
	hooks := &server.Hooks{}
	hooks.AddBeforeAny(func(_ context.Context, _ any, method mcp.MCPMethod, _ any) { b.need(method) })
	hooks.AddAfterSubscribe(func(ctx context.Context, _ any, request *mcp.SubscribeRequest, _ *mcp.EmptyResult) {
		b.subscribe(ctx, request.Params.URI)
	})
	hooks.AddAfterUnsubscribe(func(_ context.Context, _ any, request *mcp.UnsubscribeRequest, _ *mcp.EmptyResult) {
		b.unsubscribe(request.Params.URI)
	})
	hooks.AddBeforeSubscriptionsListen(func(ctx context.Context, _ any, request *mcp.SubscriptionsListenRequest) {
		for _, uri := range request.Params.Notifications.ResourceSubscriptions {
			b.subscribe(ctx, uri)
		}
	})
	hooks.AddAfterSubscriptionsListen(func(_ context.Context, _ any, request *mcp.SubscriptionsListenRequest, _ *mcp.SubscriptionsListenResult) {
		for _, uri := range request.Params.Notifications.ResourceSubscriptions {
			b.unsubscribe(uri)
		}
	})
	return hooks
}

// subscribe tells the client of every change of a resource, but not too often, until it is unsubscribed. What is no
// resource of the bridge never changes.
func (b *Bridge) subscribe(ctx context.Context, uri string) {
	s := server.ServerFromContext(ctx)
	id, one := strings.CutPrefix(uri, tasksURI+"/")
	if s == nil || (!one && uri != tasksURI) {
		return
	}
	b.subscribed.mu.Lock()
	defer b.subscribed.mu.Unlock()
	if b.ctx.Err() != nil {
		return
	}
	if known := b.subscribed.byURI[uri]; known != nil {
		known.asked++
		return
	}
	if b.subscribed.byURI == nil {
		b.subscribed.byURI = map[string]*subscription{}
	}
	watching, end := context.WithCancel(b.ctx)
	b.subscribed.byURI[uri] = &subscription{asked: 1, end: end}
	b.starting.Go(func() {
		// What happens during a pause is seen: the channels are taken before the client is told, and it reads after that.
		for next := b.signals(id); next.wait(watching, b) && pause(watching, updateEvery); {
			next = b.signals(id)
			s.SendNotificationToAllClients("notifications/resources/updated", map[string]any{"uri": uri})
		}
	})
}

func (b *Bridge) unsubscribe(uri string) {
	b.subscribed.mu.Lock()
	defer b.subscribed.mu.Unlock()
	known := b.subscribed.byURI[uri]
	if known == nil {
		return
	}
	if known.asked--; known.asked == 0 {
		known.end()
		delete(b.subscribed.byURI, uri)
	}
}

// signals are the channels that announce the changes of one task, or of all for an empty id.
type signals struct {
	id    string
	tasks int // how many the home has
	cases []reflect.SelectCase
}

func (b *Bridge) signals(id string) signals {
	c := signals{id: id}
	list, _, err := b.tasks.Show()
	if err != nil {
		return c // the next look may find it mended
	}
	c.tasks = len(list)
	for _, t := range list {
		if id == "" || t.TaskID == id {
			c.cases = append(c.cases, receive(b.mux.Track(t.TaskID, t.SessionID).Changed()))
		}
	}
	return c
}

// wait waits for a change, or for another number of tasks. It returns false at the end of ctx.
func (c signals) wait(ctx context.Context, b *Bridge) bool {
	again := time.NewTicker(newTasksEvery)
	defer again.Stop()
	cases := append([]reflect.SelectCase{receive(ctx.Done()), receive(again.C)}, c.cases...)
	for {
		switch i, _, _ := reflect.Select(cases); i {
		case 0:
			return false
		case 1:
			if now := b.signals(c.id); now.tasks != c.tasks || len(now.cases) != len(c.cases) {
				return true
			}
		default:
			return true
		}
	}
}

// pause waits, and returns false at the end of ctx.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
