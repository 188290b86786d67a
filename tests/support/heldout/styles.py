"""Style sheets of the held-out pages: a common one, and what each design adds."""

BASE = """
:root { --bg: #fff; --fg: #222; --card: #f4f4f2; --line: #d8d8d8; --accent: #0b57a4; --w: 1100px; --font: "DejaVu Sans", sans-serif; }
html.dark { --bg: #15171a; --fg: #d6d6d6; --card: #24272c; --line: #3b3e44; --accent: #86b4ff; }
* { box-sizing: border-box; }
body { margin: 0; background: var(--bg); color: var(--fg); font: 15px/1.5 var(--font); }
a { color: var(--accent); } nav a { margin-right: 16px; text-decoration: none; }
.wrap { max-width: var(--w); margin: 0 auto; } .mast { display: flex; justify-content: space-between; align-items: center; padding: 12px 0; }
.bar { display: flex; gap: 16px; align-items: center; padding: 10px 20px; background: var(--card); border-bottom: 1px solid var(--line); }
.bar .wrap { width: 100%; display: flex; gap: 16px; align-items: center; }
.cols { display: flex; gap: 28px; align-items: flex-start; } .cols > main { flex: 1; min-width: 0; } aside { width: 300px; flex: none; font-size: 14px; }
.grid2, .grid3, .grid4 { display: grid; gap: 18px; grid-template-columns: repeat(3, 1fr); } .grid2 { grid-template-columns: 1fr 1fr; } .grid4 { grid-template-columns: repeat(4, 1fr); }
.card, .note { background: var(--card); border: 1px solid var(--line); border-radius: 6px; padding: 14px; margin: 8px 0; } .note { border-left: 6px solid var(--accent); }
img, iframe { max-width: 100%; border: 0; display: inline-block; background: none; } .ad { margin: 12px auto; text-align: center; }
h1 { font-size: 30px; line-height: 1.2; } h3 { margin: 6px 0; } small { color: #777; display: block; }
table { border-collapse: collapse; width: 100%; } td, th { border: 1px solid var(--line); padding: 5px 9px; text-align: left; font-size: 14px; }
pre { background: var(--card); padding: 12px; border: 1px solid var(--line); font: 13px/1.45 "DejaVu Sans Mono", monospace; overflow: hidden; }
input { padding: 7px; border: 1px solid var(--line); background: var(--bg); color: var(--fg); min-width: 220px; } button, .button { background: var(--accent); color: #fff; border: 0; padding: 10px 22px; border-radius: 5px; }
ul.list { list-style: none; padding: 0; } ul.list li { display: flex; gap: 10px; margin-bottom: 10px; } footer { background: var(--card); border-top: 1px solid var(--line); padding: 18px; margin-top: 24px; font-size: 13px; }
.carousel { margin: 12px 0; position: relative; } .carousel h2 { position: absolute; left: 24px; bottom: 12px; margin: 0; padding: 6px 14px; background: #000b; color: #fff; }
[data-icon] { font: 16px "DejaVu Sans"; }
@media (max-width: 700px) { .cols, .mast { display: block; padding: 0 12px; } aside { width: auto; } .grid2, .grid3, .grid4 { grid-template-columns: 1fr; } img { height: auto; } .wrap { padding: 0 12px; } }
"""

OWN = {
    "courier": ':root { --font: "DejaVu Serif", serif; } .lead { display: flex; gap: 20px; border-bottom: 3px double var(--line); } header nav { background: #7a1420; padding: 8px calc(50% - 550px); } header nav a { color: #fff; } .grid3 p { font-size: 14px; }',
    "gazette": ':root { --w: 760px; --font: "DejaVu Serif", serif; } .stand { font-size: 19px; color: #555; } figure { margin: 16px 0; } .comments li { list-style: none; margin: 8px 0; } iframe { display: block; margin: 16px auto; }',
    "handbook": ".bar { background: #1e3a4c; color: #fff; } aside { background: var(--card); width: 250px; padding: 10px; border-right: 1px solid var(--line); } aside li { list-style: none; margin: 3px; } main { max-width: 820px; }",
    "nocturne": ':root { --bg: #101418; --fg: #c8d0d4; --card: #1a2026; --line: #2c343c; --accent: #6cd; --w: 980px; } .brand { font: 34px "DejaVu Sans Mono"; color: #e8a33d; } h2 { color: #e8a33d; }',
    "permit": ":root { --w: 860px; --accent: #00703c; } .bar { background: #0b0c0c; color: #fff; border-bottom: 10px solid #1d70b8; } label { font-weight: bold; } em { color: #d4351c; } .field { margin: 16px 0; } .field input { width: 420px; border: 2px solid #0b0c0c; }",
    "kitchen": ":root { --bg: #fffaf2; --card: #fdeed8; --accent: #b4441c; --w: 900px; } .brand { font: italic 30px 'DejaVu Serif'; color: var(--accent); } .box { background: var(--card); padding: 8px 20px; width: 320px; flex: none; } .meta { margin: 8px 0; }",
    "lexicon": ':root { --accent: #36c; } body { font-size: 14px; background: #f6f6f6; } main { background: var(--bg); border: 1px solid #a7d7f9; padding: 16px 24px; } aside { width: 170px; padding: 12px; font-size: 12px; } .box { float: right; width: 270px; margin: 0 0 12px 18px; background: var(--card); } h1, h2 { font: 26px "DejaVu Serif"; } h2 { font-size: 20px; border-bottom: 1px solid var(--line); } .toc { border: 1px solid var(--line); background: var(--card); width: 260px; padding: 8px 30px; }',
    "report": 'body { background: #525659; } .bar { background: #323639; color: #fff; justify-content: space-between; } main { width: 820px; margin: 16px auto; } section { background: #fff; padding: 60px 80px; margin-bottom: 14px; color: #111; font: 14px/1.45 "DejaVu Serif"; text-align: justify; } .no { text-align: center; }',
    "diwan": ":root { --accent: #0a6b4f; --w: 1040px; } .brand { font-size: 32px; color: var(--accent); } header { border-bottom: 4px solid var(--accent); } p { font-size: 17px; line-height: 1.8; }",
    "agora": ':root { --bg: #f3efe6; --card: #e6dfd0; --accent: #7d2a2a; --w: 1000px; --font: "DejaVu Serif"; } .stand { font-size: 18px; }',
    "chronicle": ':root { --w: 900px; --font: "DejaVu Serif"; } h2 { color: #884; border-top: 1px solid var(--line); } img { float: right; margin: 0 0 10px 16px; }',
    "bare": "body { background: #f0f0f2; } .box { width: 600px; margin: 80px auto; background: #fdfdff; padding: 32px; border-radius: 8px; box-shadow: 2px 3px 7px 2px #0002; }",
    "shot": "body { background: #0e0e0e; } main { display: flex; justify-content: center; align-items: center; min-height: 800px; }",
    "pocket": "h1 { font-size: 24px; padding: 0 14px; } p, small { padding: 0 14px; } .bar { justify-content: space-between; }",
    "plan": ":root { --accent: #5a2d82; } .bar { background: #efe6f7; }",
    "bazaar": ":root { --accent: #c45500; } .bar { background: #131a22; color: #fff; } .bar input { flex: 1; } aside { width: 200px; } .grid4 p { color: #b12704; margin: 2px 0; font-size: 18px; } aside ul { padding-left: 16px; } article img { background: #fff; }",
    "gauges": ":root { --bg: #f0f2f7; --card: #fff; --accent: #4653c8; } .cols { gap: 0; } aside { background: #232a4d; color: #cdd3f2; width: 210px; min-height: 900px; padding: 16px; } aside li { list-style: none; margin: 10px 0; } main { padding: 16px 28px; } .card b { font-size: 28px; } table { background: #fff; }",
    "board": ":root { --bg: #e9ebf0; --card: #fff; } .bar { background: #2c4b7c; color: #fff; } .bar a { color: #cde; } .post { display: flex; gap: 16px; background: var(--card); border: 1px solid var(--line); padding: 12px; margin: 8px 0; } .post > div:first-child { width: 130px; flex: none; }",
    "thumbs": "body { background: #222; } .bar { background: #111; color: #eee; border: 0; } .tiles { display: flex; flex-wrap: wrap; gap: 12px; padding: 20px 0; }",
    "launch": ".hero { position: relative; height: 520px; } .over { position: absolute; left: 90px; top: 120px; color: #fff; background: #0009; padding: 24px; width: 520px; } .over h1 { font-size: 44px; margin: 0; } .wrap { padding-top: 24px; }",
    "theatre": ":root { --bg: #1b0d12; --fg: #eadfe2; --card: #3a1522; --line: #5a2b3a; --accent: #e0a0b0; }",
    "code": ":root { --w: 1180px; } table { background: var(--bg); } .card { background: var(--bg); padding: 6px 26px; } td { border-width: 1px 0; }",
    "screen": ":root { --bg: #f9f9f9; } .cols { padding: 16px 24px; } aside { width: 360px; } h1 { font-size: 20px; }",
    "talk": ":root { --w: 1280px; } aside { background: #3f0e40; color: #e0cde0; min-height: 800px; width: 220px; padding: 16px; } .line { display: flex; gap: 12px; margin: 10px 0; } .line span { display: block; background: var(--card); padding: 8px 12px; border-radius: 10px; } .mine span { background: #d7f0d0; color: #222; }",
    "entry": "body { background: #e8ecf2; } .card { width: 380px; margin: 90px auto 0; background: #fff; padding: 28px; text-align: center; } label { display: block; text-align: left; margin-top: 12px; } input, button { width: 100%; margin-top: 4px; } button { margin-top: 18px; } footer { text-align: center; background: none; border: 0; }",
    "results": ":root { --accent: #1a0dab; } .hit { margin-bottom: 20px; max-width: 640px; } .hit h3 { color: var(--accent); font-weight: normal; margin: 0; } .wrap { padding-top: 12px; }",
    "departures": ":root { --bg: #0d2146; --fg: #ffd75a; --card: #091733; --line: #24407a; --font: 'DejaVu Sans Mono'; } td { font-size: 16px; }",
    "weather": ":root { --bg: #e3f1fb; --card: #fff; --accent: #1478c8; } .row { display: flex; gap: 10px; } .row .card { flex: 1; text-align: center; } .large { font-size: 44px; color: #e39a10; display: block; } .card b { font-size: 24px; }",
}


def sheet(name: str) -> str:
    """Return the style sheet of a design."""
    return BASE + OWN[name]
