"""What each rule must and must not do, said a second time and from the JSON alone; `CASE` of its tests names it."""
