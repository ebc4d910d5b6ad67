package readme
import ("testing";"fmt")
func TestPrint(t *testing.T) {
	for name, f := range troubles { t.Run(name, func(t *testing.T){ x := newTrouble(t); fmt.Printf("== %s\n%s\n", name, x.sanitised(f(x))) }) }
}
