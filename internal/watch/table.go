package watch

import (
	"strconv"
	"strings"
	"time"

	"charm.land/lipgloss/v2"

	"dsh-agentlink/internal/operator"
	"dsh-agentlink/internal/words"
)

// The columns are those of `tasks`.
const (
	columnTask = iota
	columnStatus
	columnAge
	columnEvent
	columnPending
	columnWorkspace
	columnTitle
	columns
)

var head = [columns]string{"TASK", "STATUS", "AGE", "LAST EVENT", "PENDING", "WORKSPACE", "TITLE"}

const (
	gap = 2 // between two columns
	// wideEnough is the width from which the last event has a column; below it workspace and title need the room.
	wideEnough = 100
	markWidth  = 3 // of what is in front of the columns
)

// cells are the fields of a task's row.
func cells(t operator.Task, now time.Time) [columns]string {
	row := [columns]string{columnTask: t.TaskID, columnStatus: words.Status(t), columnAge: words.Age(now, t.UpdatedAt), columnTitle: t.Title}
	if t.LastEvent != nil {
		row[columnEvent] = t.LastEvent.Type
	}
	if t.Pending > 0 {
		row[columnPending] = strconv.Itoa(t.Pending)
	}
	if t.Workspace != nil {
		row[columnWorkspace] = t.Workspace.Cwd
	}
	for i := range row {
		row[i] = words.Visible(row[i])
	}
	return row
}

// rows writes the tasks that are on the screen, under their head; selected is an index of them.
func rows(tasks []operator.Task, selected int, now time.Time, width int) []string {
	table := [][columns]string{head}
	for _, t := range tasks {
		table = append(table, cells(t, now))
	}
	widths := layout(table, width)
	all := []string{words.Paint(words.Faint, strings.Repeat(" ", markWidth)+join(head, widths, words.Plain))}
	for i, t := range tasks {
		all = append(all, row(t, table[i+1], widths, i == selected, width))
	}
	return all
}

// layout gives every column the width of its longest field, and workspace and title what is left. A width below 0 is a
// column that is left out.
func layout(table [][columns]string, width int) (widths [columns]int) {
	for _, row := range table {
		for i, field := range row {
			widths[i] = max(widths[i], lipgloss.Width(field))
		}
	}
	if width < wideEnough {
		widths[columnEvent] = -1
	}
	left := width - markWidth
	for i, w := range widths {
		if i != columnWorkspace && i != columnTitle && w >= 0 {
			left -= w + gap
		}
	}
	left -= gap
	folder, title := widths[columnWorkspace], widths[columnTitle]
	if folder+title > left {
		title = min(title, max(left/2, left-folder))
		folder = left - title
	}
	widths[columnWorkspace], widths[columnTitle] = max(folder, 0), max(title, 0)
	return widths
}

// join writes a row's fields in their columns, the status in its tint.
func join(row [columns]string, widths [columns]int, status words.Tint) string {
	var b strings.Builder
	for i, field := range row {
		if widths[i] <= 0 {
			continue
		}
		if i == columnWorkspace {
			field = keepEnd(field, widths[i])
		}
		field = words.Clip(field, widths[i])
		room := strings.Repeat(" ", max(0, widths[i]-lipgloss.Width(field))+gap)
		if i == columnStatus {
			field = words.Paint(status, field)
		}
		b.WriteString(field + room)
	}
	return strings.TrimRight(b.String(), " ")
}

// keepEnd cuts a folder's beginning off, since its end tells more.
func keepEnd(path string, width int) string {
	if lipgloss.Width(path) <= width {
		return path
	}
	runes := []rune(path)
	for len(runes) > 0 && lipgloss.Width(string(runes)) >= width {
		runes = runes[1:]
	}
	return "…" + string(runes)
}

var (
	asking   = lipgloss.NewStyle().Foreground(lipgloss.Magenta).Bold(true)
	pointed  = lipgloss.NewStyle().Reverse(true)
	pointing = asking.Reverse(true)
)

// row writes one task. What waits for an answer stands out without colours, too: by its mark.
func row(t operator.Task, fields [columns]string, widths [columns]int, selected bool, width int) string {
	point, waits := " ", " "
	if selected {
		point = ">"
	}
	if t.Pending > 0 {
		waits = "!"
	}
	status := words.Plain // a row that is painted whole has no further colours
	if !selected && t.Pending == 0 {
		status = words.StatusTint(strings.TrimRight(fields[columnStatus], "?+"))
		if t.Problem != "" {
			status = words.Bad
		}
	}
	line := point + waits + " " + join(fields, widths, status)
	full := line + strings.Repeat(" ", max(0, width-lipgloss.Width(line)))
	switch {
	case selected && t.Pending > 0:
		return pointing.Render(full)
	case selected:
		return pointed.Render(full)
	case t.Pending > 0:
		return asking.Render(line)
	}
	return line
}
