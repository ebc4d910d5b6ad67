package setup

import (
	"math"
	"reflect"
)

// same compares decoded documents. Two NaN are the same here: the text that made them is.
func same(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		other, ok := b.(map[string]any)
		if !ok || len(a) != len(other) {
			return false
		}
		for key, value := range a {
			if counterpart, ok := other[key]; !ok || !same(value, counterpart) {
				return false
			}
		}
		return true
	case []any:
		other, ok := b.([]any)
		if !ok || len(a) != len(other) {
			return false
		}
		for i, value := range a {
			if !same(value, other[i]) {
				return false
			}
		}
		return true
	case float64:
		other, ok := b.(float64)
		return ok && (a == other || math.IsNaN(a) && math.IsNaN(other))
	}
	return reflect.DeepEqual(a, b)
}

// without returns the document without the named members of the table; a table that is left empty is the same as none.
func without(document map[string]any, table string, names []string) map[string]any {
	rest := make(map[string]any, len(document))
	for key, value := range document {
		rest[key] = value
	}
	servers, ok := document[table].(map[string]any)
	if !ok {
		return rest
	}
	others := make(map[string]any, len(servers))
	for key, value := range servers {
		others[key] = value
	}
	for _, name := range names {
		delete(others, name)
	}
	if rest[table] = others; len(others) == 0 {
		delete(rest, table)
	}
	return rest
}
