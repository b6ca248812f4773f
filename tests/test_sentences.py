"""Sentence ends: the golden set, kinds of text, options, and what holds for any text at all."""

from __future__ import annotations

import json
import pickle
import sys
from itertools import product
from pathlib import Path
from unicodedata import category

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llama_index.core import Document
from llama_index.core.ingestion.pipeline import get_transformation_hash
from llama_index.core.node_parser import SentenceSplitter, SentenceWindowNodeParser

from llama_index_chunking_plus import SlidingWindowNodeParser
from llama_index_chunking_plus.core.sentences import ChineseSentenceTokenizer, chinese_sentence_tokenizer
from llama_index_chunking_plus.core.spans import is_partition
from llama_index_chunking_plus.errors import OptionError

GOLDEN = [
    json.loads(line)
    for line in (Path(__file__).parent / "data" / "golden_sentences_zh.jsonl").read_text(encoding="utf-8").split("\n")
    if line
]
OPTION_SETS = [
    ChineseSentenceTokenizer(quotes, ellipsis, newline, semicolon, colon)
    for quotes, ellipsis, newline, (semicolon, colon) in product(
        ["split", "keep"],
        ["auto", "always", "never"],
        ["line", "wrap", "paragraph"],
        [(False, False), (True, "list"), (True, True)],
    )
]

# One case a line: ‖ is an expected cut, ⏎ a newline, ␍⏎ a Windows newline.
KINDS = {
    "basic": """
天黑了。‖他还没回来。
真的吗？‖当然。
快跑！
你吃饭了吗？‖我吃过了。‖那走吧！
他来了，看了，走了。
""",
    "close_quote": """
他说：“走吧。”‖我们就走了。
她喊道：“小心！”‖众人回头。
小明问：“几点了？”‖没人理他。
牌子上写着：“禁止吸烟！”‖他掐灭了烟。
他说，“我不去。”‖大家都沉默了。
古人云：“学而时习之。”‖此言不虚。
他心想：‘完了！’‖汗水流了下来。
他只说了三个字：“我不去”。‖然后转身走了。
“人民”是个好词。‖大家都用。
他回答：“好。”
他说：“好！”，然后走了。
他说：“好”！‖大家鼓掌。
这就是所谓的“双赢”！‖谁不想要呢？
正如鲁迅所说：“时间就是生命。”（《且介亭杂文》）‖我们要珍惜时间。
横幅上写着：“加油！”字样。
他的话很长，说“这件事情我们还需要再仔细地讨论一下。”‖大家同意。
103亿美元。‖”我们面临竞争，需要帮助。”他说。
""",
    "nested_quote": """
他说：“我听见有人喊‘救火！’，就跑了出来。”‖大家点头。
她说：“老师问：‘谁会？’‖没有人举手。”‖我笑了。
“他对我说‘再见。’”小王回忆道。
妈妈说：“你爸说了，‘不许去！’”‖我只好留下。
『他說：「走！」』‖我們走了。
老師說：「他問『為什麼？』，我沒有回答。」‖大家笑了。
""",
    "quote_attrib": """
“你好。”他说。‖我点点头。
“去哪儿？”她问。
“快来人啊！”有人喊道。‖街上空无一人。
“我知道，”他说，“你不想去。”‖我没说话。
“谁啊？”屋里传来一个声音，“这么晚了。”
“我不去！”他大声说。‖说完就走了。
“当然可以。”服务员微笑着说。
“你是谁？”老人警惕地问道。‖来人没有回答。
他说：“我去。”‖她说：“我也去。”
“没关系。”她轻声安慰道，“会好起来的。”‖我点头。
“着火了！”的叫声惊醒了大家。
“怎么办？”这个问题困扰着所有人。
那声“再见！”让我难过了很久。
他对着山谷大喊“有人吗？”，没有回应。
“不行。”母亲坚决地回答。‖父亲叹了口气。
“下课！”老师宣布。‖同学们冲了出去。
“明天见！”两人异口同声地说。
“……我不知道。”他低声答道。
“真的？”她瞪大了眼睛。
“请进。”里面有人应道。‖门开了。
「好的。」她笑著說。
“下雨了！‖快收衣服！”奶奶喊道。‖大家忙了起来。
“请坐。”‖老师示意他坐下。
“走吧。”‖他说：“天黑了。”
“走吧。”他说，“天黑了。‖快点。”‖我们加快了脚步。
“好吃！”大家都这么说。
“站住！”‖警察追了上去。
“这本书真好看！”小红一边翻书一边说。
“是吗？”‖“是的。”‖“那好吧。”
“可是……”‖“没有可是！”
他说：“可是……”‖“没有可是！”‖她打断了他。
他一边喊“加油！加油！”一边跑。
运行git commit -m "修复。"后推送。‖完成。
他说了句“好。”就走了。
“A？”还是“B？”由你决定。
“啊？”了一声，他醒了。
""",
    "bracket": """
这件事（你听说了吗？）已经传开了。
（以上数据均为估算。）‖实际数字可能不同。
他已经离职了。‖（详情请见公告。）‖请大家知悉。
会议改期了（原定周五）。‖请留意。
【公告】本周六停电！‖请做好准备。
〔注意！〕此处有电。
会议室（3楼）已满！‖请另选。
价格（含税。运费另计）为100元。
{重要！}请勿删除。
他喜欢看书(特别是小说!)和电影。
他走了（真的走了！）。‖我很难过。
本文（初稿。未经审定）仅供参考。‖请勿外传。
价格：100元（不含税。）‖请注意。
（一）申请书。‖（二）身份证明。‖（三）其他材料。
结果见表1（n=30。p<0.05）。‖讨论略。
公司(成立于2001年.)位于北京。‖员工1.2万人。
""",
    "ellipsis": """
他想了想……然后笑了。
“我……我不知道……”他说。
也许吧……。‖谁知道呢？
什么……？‖你再说一遍。
苹果、香蕉、橘子……都卖完了。
他说：“算了……”‖我没有回答。
等一下...我马上来。
她走了。‖……我还在原地。
……他终于开口了。
天哪……！！‖太可怕了。
春天……⏎‖夏天……⏎
会议开始……‖……会议结束。
Wait... ‖Then he came.
他说：“……必须改革。”‖会议通过了决议。
""",
    "repeat": """
真的吗？？？‖我不信。
太棒了！！！‖我们赢了！
什么?!‖你疯了吗?!
啊？！‖怎么会？！
好。。。‖再见。
加油！！！！‖必胜！！！！
不会吧?? ‖真的吗!!
走！！！
""",
    "dash": """
他终于来了——迟到了两个小时。‖会议已经结束。
“我——”他停住了。
北京——上海——广州。‖一路向南。
你听——谁在唱歌？‖是她。
等等——别走！‖我有话说。
全长1000km—1200km。‖其余略。
""",
    "semicolon": """
春天，花开了；夏天，蝉叫了。
他喜欢读书；她喜欢画画；我喜欢唱歌。‖各有所好。
一是成本低；二是效率高。
""",
    "colon": """
他只有一个要求：准时。
注意事项如下：不要迟到。‖不要早退。
会议时间：下午三点。‖地点：三楼。
比分是3：2。‖我们赢了。
答：不是。
""",
    "number": """
圆周率是3.14159。‖自然常数是2.71828。
价格是$9.99!‖快来买。
版本号为v1.2.3。
增长了0.5%。‖下降了1.2%。
IP是10.0.0.1。
第3.2节有说明。‖请看。
约1.5万人参加。‖其中0.3万人是学生。
３．５公里。‖两小时。
他得了99.5分!‖太厉害了。
总价为12,000.50元。
上午9：30开会。
温度是-3.5℃。‖很冷。
长3.0m，宽2.5m。
2023.10.01发布。‖2024.1.1生效。
比例为1:2.5。‖误差0.01。
１．５倍。‖２．０倍。
Python 3.8.5 发布了. ‖请升级.
""",
    "url_code": """
请访问https://www.example.com/a.html?x=1&y=2。‖谢谢。
邮箱：test.user@mail.example.com。‖请联系。
运行python main.py即可。‖不要加参数。
编辑/etc/nginx/nginx.conf。‖然后重启。
使用Node.js开发。‖部署在AWS上。
函数foo.bar()返回空值。‖请检查。
`a = b ? c : d;`是三元表达式。‖常用。
下载setup.exe。‖双击安装。
看https://zh.wikipedia.org/wiki/Main_Page!‖很有用。
代码是`if (!ok) return;`。‖不要改。
打开C:\\Users\\me\\a.txt。
数组a[0]!=b[1]时跳过。‖否则继续。
系统是.NET 6.0。‖够用了。
见example.com/path.html?id=3#top，里面有说明。
如x.y.z所示。‖注意大小写。
""",
    "abbrev": """
Mr. Smith来了。‖大家起立。
如图Fig. 3所示。‖误差很小。
他在U.S.A.工作。‖三年了。
苹果、梨etc.都可以。‖随便挑。
Prof. Li说得对。‖我同意。
Apple Inc.发布了新品。‖价格不变。
见Vol. 2, pp. 10-12。‖有详细说明。
Ph.D.学位很难读。‖他读了六年。
A vs. B的结果出来了。
J. K. Rowling写了这本书。‖我很喜欢。
今天是Jan. 5。‖天气很冷。
St. Louis很美。
约500 B.C.建成。
我在Google Inc. 工作。‖他在Apple Corp. 上班。
see Fig. A and Sec. 3.2. ‖谢谢。
见 No. 七号文件。
时间是10 a.m. 到 5 p.m.。‖请准时。
""",
    "en_mixed": """
他说：“OK.”‖然后走了。
这是iPhone 15 Pro。‖很贵。
Hello! ‖你好！
What's new? ‖有什么新消息？
他说“Thank you.”，然后离开。
今天meeting取消了。‖OK?
Let's go! ‖快走。
I love you.‖我爱你。
请说English!‖不要说中文。
The end. ‖谢谢观看。
他喊：“Go!”‖大家跑了起来。
“Hello!”他说。‖我笑了。
使用Google搜索。‖It works well. ‖很好用。
He said "Hi." ‖Then he left.
Is it OK? ‖Yes, it is.
这是test. ‖这是another test.
OK. ‖我知道了。
No. ‖我不去。
该函数返回 true. ‖否则返回 false.
新一期Yes! 送给你！‖真的。
""",
    "width": """
你好吗？‖我很好!
他来了．‖她走了．
行不行?‖不行!‖那算了。
ＯＫ！‖没问题。
ｱｲｳ｡‖ｴｵ｡
真的﹖‖假的﹗
是吗? ‖是的。
为什么？‖因为贵!
""",
    "trad": """
「你要去哪裡？」她問。
他說：「我們走吧。」‖大家都同意了。
這是『水滸傳』的故事。‖很有名。
「謝謝！」小明說。‖老師笑了。
她哭了⋯⋯⏎‖我也哭了。
這樣好嗎？‖不好說。
《紅樓夢》裡說：「假作真時真亦假。」‖此話不虛。
﹁走吧。﹂
""",
    "heading": """
第一章 绪论⏎‖本章介绍背景。‖随后给出结构。
2.3.1 数据来源⏎‖数据来自网络。
（一）基本情况⏎‖公司成立于2000年。
# 标题⏎‖正文。
一、目的。‖二、范围。
1、准备。‖2、开始。
甲、总纲⏎‖乙、细则⏎
1. 背景介绍⏎‖本节略。
A. 对 B. 错
Chapter 1. Introduction⏎‖This is it.
1. 苹果 2. 香蕉 3. 橙子
图1.2 系统结构⏎‖如图所示。
I. 引言⏎‖II. 方法⏎
目录⏎‖第一节 概述 1⏎‖第二节 方法 5⏎
C.5. Debian 分区程序
### 4.3.2. 安装系统
Q1. 怎么退款? ‖A1. 在订单页申请.
一.总则 二.分则
Step 1. 打开电源。‖Step 2. 按下按钮。
步骤1：打开。‖步骤2：关闭。
a. 选项一 b. 选项二
""",
    "list": """
* 苹果⏎‖* 香蕉⏎
1. 苹果⏎‖2. 香蕉⏎
① 打开。⏎‖② 关闭。⏎
①准备材料。‖②搅拌均匀。‖③放入烤箱。
a) 第一⏎‖b) 第二⏎
（1）付款。‖（2）发货。
+ 甲⏎‖+ 乙
· 红⏎‖· 绿⏎
步骤：①洗菜。‖②切菜。‖③炒菜。
- [ ] 买菜。⏎‖- [x] 做饭。⏎
✅ 已完成。‖✅ 已验收。
1) 打开。‖2) 关闭。
""",
    "newline": """
第一行⏎‖第二行
一。␍⏎‖二。␍⏎
一\x0d‖二
甲。⏎⏎⏎‖乙。
⏎⏎第一段。⏎‖第二段。⏎⏎
甲 ⏎‖ 乙。
第一句。\u2028‖第二句。
甲\u2029‖乙
一\v‖二
标题␍⏎␍⏎‖正文。
""",
    "space": """
　　一段话。
第一句。\t‖第二句。
第一句。 ⏎‖第二句。
\ufeff第一句。‖第二句。
第一句。\xa0‖第二句。
 。
第一句 。‖第二句 。
""",
    "emoji": """
生日快乐！🎂🎉‖晚上见。
好的👌。‖谢谢🙏。
哈哈哈😂！‖笑死我了。
收到！👍🏻‖马上处理。
我爱你❤\ufe0f。‖真的。
赢了！🇨🇳‖太好了！
再见！:)‖明天见。
今天很累😭
去吗？😀😀‖去！
收到！[微笑]‖明天见。
再见！(^_^)‖明天见。
早上好☀\ufe0f！‖天气好☁\ufe0f。
1\ufe0f⃣ 打开。‖2\ufe0f⃣ 关闭。
⭐ 好评。‖⭐ 推荐。
好哒~ ‖明天见~
""",
    "no_term": """
无标点
？
！！！
...
“
”
（
没有闭合的“引号。‖后面照常。
【没有闭合。‖继续。
多余的）括号。‖后面照常。
《未完。‖继续写。
a
123
；
""",
    "markdown": """
**注意！**‖请先断电。
这是**重点。**‖请记住。
请看**重点！**的部分。‖谢谢。
## 标题⏎‖正文。
- 第一项。⏎‖- 第二项。⏎
点击[这里。](http://a.com)查看。‖谢谢。
![图片！](a.png)⏎‖说明。
| a | b！c | d |⏎‖| 1 | 2。3 | 4 |⏎
```python⏎‖print('你好。再见。')⏎‖```⏎‖结束。
> 他说：“走！”‖我没动。⏎
使用`rm -rf .`命令。‖小心！
1. **打开**。‖2. **关闭**。
第一句。‖**第二句**很重要。
~~~⏎‖a. B。c⏎‖~~~⏎
脚注[^1]。‖正文。[^2]‖结束。
_强调。_‖下一句。
***重要！***‖请看。
看图！‖![图](a.png)
[a.b](http://a.com)！‖下一句
**1. 准备。** ‖先洗手。
2 * 3 = 6。‖4 * 5 = 20。
* 星号。‖列表。
``a`b。c``。‖d。
""",
    "latex": """
设$x=1.5$。‖则$y=2$。
公式\\[a!=b\\]成立。‖证毕。
由$f(x)=x!$可知。‖结论成立。
价格是$5。‖不贵。
$a$、$b$。‖$c$。
设$n$为整数。‖$m$亦然。
其中$\\alpha=0.05$，显著。
是$a$吗？‖$b$呢？
公式$$x=1.$$。‖结束。
令$A.B$、$C!$。‖证毕。
它花了$5。‖我花了$6。
由\\(x=1.\\)得。‖证毕。
n!的增长很快。‖5!=120。
""",
    "html": """
<p>第一句。‖第二句。</p>
<p>一。</p>‖<p>二。</p>
<b>注意！</b>‖请断电。
<a href="http://a.com/?q=1">点击这里！</a>‖谢谢。
他说<b>走！</b>的时候很坚决。
A&amp;B公司成立了。‖很好。
第一句。&nbsp;‖第二句。
<!-- 注释。不要动！ -->正文。
<br>第一行。<br>‖第二行。
<span title="你好。世界">文字</span>。‖结束。
<td>甲。</td>‖<td>乙。</td>
x<y。‖y>z。
<h1>标题！</h1>‖<p>正文。</p>
<ul><li>甲。</li>‖<li>乙。</li></ul>
<a href="x">链接。</a>的内容。
&lt;注意！&gt;‖请看。
第一句。‖<b>第二句。</b>‖第三句。
""",
    "dialogue": """
小明：去吗？⏎‖小红：不去。⏎
A：你好！‖B：你好！
问：为什么？⏎‖答：因为。⏎
主持人：欢迎！‖嘉宾：谢谢。
—你好吗？⏎‖—很好。⏎
甲：“去吗？”‖乙：“去。”
老师：谁来回答？‖学生：我！
""",
    "legal": """
第一条 为了规范，制定本法。⏎‖第二条 本法适用于境内。⏎
（一）甲方的权利；（二）乙方的义务。
依据《合同法》第五十二条。‖合同无效。
第三条第（二）款规定：“不得转让。”‖违者罚款。
本条所称“以上”、“以下”，包括本数。‖特此说明。
第十条　有下列情形之一的：⏎‖　　（一）未成年；⏎‖　　（二）无行为能力。⏎
""",
    "chatlog": """
小王 12:30⏎‖到了吗？⏎‖小李 12:31⏎‖到了！⏎
<小明> 在吗？⏎‖<小红> 在。⏎
@张三 请看一下！‖谢谢。
【系统】您有新消息！‖请查收。
[图片]⏎‖好看！⏎
2024-01-02 12:30:45 [INFO] 启动完成。⏎‖2024-01-02 12:30:46 [ERROR] 失败！⏎
张三(12:30)：你好！‖在吗？
哈哈哈哈~⏎‖好的~⏎
#话题#今天好热！‖大家注意防暑。
//@小明：转发微博。‖好看！
""",
    "poem": """
床前明月光，疑是地上霜。‖举头望明月，低头思故乡。
春眠不觉晓，⏎‖处处闻啼鸟。⏎
你见，或者不见我⏎‖我就在那里⏎
""",
    "citation": """
结果显著（张三，2020）。‖见下文。
已有研究证实[3,4]。‖但仍有争议[5]。
效果良好。[1]‖另有研究指出。[2,3]‖综上所述。
该理论影响深远。①‖后来有人质疑。②
数据可靠。［1］‖样本充足。
据报道。〔2〕‖情况属实。
他同意。¹‖我不同意。²
Smith (2020) 指出。‖Jones等(2021)反对。
如文献[12]所示。‖结果一致。
“知之为知之。”[1]‖此言有理。
成立。[注1]‖不成立。
结论可靠。[1]-[3]‖其他。
人口众多。[a]‖面积广大。[b]
该说法存疑。[來源請求]‖但仍流行。
[1] 张三. 论分句[J]. 语言学报, 2020(3): 1-5.
[1]张三。‖[2]李四。
要点：①甲。‖②乙。
已证实。 [4] ‖另见下文。
""",
    "science": """
pH=7.0时反应最快。‖温度为37.5℃。
H2O是水。‖CO2是气体。
E. coli是常见菌。‖易培养。
浓度为0.1mol/L。‖体积为50.0mL。
p<0.05。‖差异显著。
C6H12O6为葡萄糖。
速度为3.0×10^8 m/s。‖不可超越。
NaCl·2H2O。‖白色。
DNA序列为5'-ATG-3'。‖长度3。
若n!>100，则n≥5。‖证毕。
1,2-二氯乙烷0.5 mL。‖混匀。
""",
    "ascii_quote": """
他说:"走吧!"‖我们走了。
"好。"她说。‖我笑了。
他问:'去吗?'‖我说:'去。'
"我知道,"他说,"你不想去。"‖我没说话。
所谓"双赢"。‖不存在。
他说："好！"‖她说："不好！"
标题是"为什么？"的文章。‖很好看。
It's OK. ‖Don't worry.
"谁?"他问。
5"屏幕。‖6"屏幕。
""",
    "title": """
《怎么办？》是名著。‖我读过。
他写了《你好，世界！》一书。‖很畅销。
〈为什么？〉是一首歌。
《“你好！”》出版了。‖请购买。
《甲》、《乙！》和《丙？》都好看。
读《论语·学而》。‖再读《孟子》。
《A.B.C.》是书。‖不错。
""",
    "other_lang": """
こんにちは。‖元気ですか？‖はい、元気です。
「行くぞ！」と彼は叫んだ。‖みんな走った。
안녕하세요. ‖반갑습니다.
Dr. Smith went to Washington. ‖He met Mr. Jones.
Привет. ‖Как дела?
¿Cómo estás? ‖Bien.
It costs $3.50. ‖That is cheap.
नमस्ते। ‖आप कैसे हैं?
He lives in the U.S. ‖The weather is fine.
He works at Apple Inc. in California. ‖She does not.
"Stop!" he shouted. ‖Nobody moved.
We use e.g. Python, i.e. a language. ‖Fine.
She left at 5 p.m. ‖He stayed.
كيف حالك؟ ‖بخير.
See Fig. 3 and Eq. (2). ‖Done.
Version 2.0 is out. ‖Get it at example.com. ‖Thanks!
What?! ‖No way!
Wait... what? ‖OK.
「はい」と言った。‖「いいえ。」‖彼女は帰った。
He said, “Stop!” and left.
Let us meet at 5 p.m. ‖The shop is near St. Paul's.
""",
    "classical": """
子曰：“学而时习之，不亦说乎？‖有朋自远方来，不亦乐乎？”
孟子曰：“可。”‖王曰：“善。”
臣闻求木之长者，必固其根本。‖欲流之远者，必浚其泉源。
曰：“何也？”‖对曰：“不知也。”
子曰：「君子不器。」
""",
    "trap": """
“？”是问号。‖“！”是叹号。
C++和C#都行。‖你选哪个？
“句号。”这个词怎么写？
1/2是0.5。‖对吗？
他的微信名是“下雨啦！”，很有趣。
O(n!)太慢。‖换一个算法。
第1.5版发布了。‖请更新。
问号“？”和叹号“！”都是标点。‖句号也是。
请输入“Y.”或“N.”。‖不要输入别的。
8:00-9:00上课。‖9:10下课。
选A.还是选B.？
3.15晚会。‖6.18大促。
Jeopardy!节目很火。‖收视率高。
“！”号不能省。
比分5:3!‖赢了。
""",
}
WRAPPED = """
这份报告由三个部门共同完成，历时两个月，收集了来自各地的大量⏎数据，并且经过了核对。‖结论可靠。
这份报告由三个部门共同完成，历时两个月，收集了来自各地的大量数据。⏎‖并且经过了核对。
他说：“这份报告由三个部门共同完成，历时两个月，收集了来自⏎各地的大量数据。”‖我们都同意。
The quick brown fox jumps over the lazy dog and then it⏎runs away. ‖It never comes back.
第一章 绪论⏎‖本章介绍背景，说明本文所要解决的问题，以及解决这些问题的方法与␍⏎步骤。‖其次给出结构。
短句⏎‖短句二⏎‖这是一个很长的行，它的长度超过了十八个字符，但是后面是空行⏎⏎‖新的一段。
本合同的甲方和乙方应当遵守以下各项规定，并且承担相应的责任和义务⏎‖（一）按时付款⏎‖（二）按时交货
这份报告由三个部门共同完成，历时两个月，收集了来自各地的大量⏎‖　　新的一段从这里开始，缩进两格。
```⏎‖a_long_line_of_code_that_is_not_prose = 1⏎‖b = 2⏎‖```⏎‖正文。
"""
PDF_TEXT = {
    "a stop inside the line": """
公司全年实现营业收入12.5亿元，同比增长18.3%。‖其中海外业务收入3.2亿⏎元，占比25.6%；研发投入创下了公司成立以来的最高纪录，⏎达到1.1亿元。⏎
""",
    "a blank line": """
本条例所称个人信息，是指以电子或者其他方式记录的与已识别或者可识⏎⏎‖别的自然人有关的各种信息。
本条例所称个人信息，是指以电子或者其他方式记录的与已识别或者可识␍⏎␍⏎‖别的自然人有关的各种信息。
""",
    "headings": """
一、总则⏎‖为规范公司员工的考勤管理，提高工作效率，根据国家有关法律法规⏎的规定，结合本公司实际情况，制定本制度。⏎‖二、工作时间⏎‖公司实行每日八小时工作制。⏎
任何一方违反本合同约定的，应当承担违约责任，并赔偿对方因此所受⏎到的全部损失。⏎‖第四章 附则⏎‖本合同一式两份。
第三章 关于进一步加强和改进未成年人思想道德建设的若干意见⏎‖各级人民政府应当把未成年人的思想道德建设摆在更加突出的位⏎置。
产品在正常使用条件下出现质量问题的，自购买之日起七日内可以退货。⏎‖保修范围⏎‖保修范围包括主机、电源和附带的线缆，但不包括因使用不当造成的⏎损坏。
""",
    "lists": """
本合同的甲方和乙方应当遵守以下各项规定，并且承担相应的责任和义务⏎‖1. 按时付款⏎‖2) 按时交货⏎‖（三）出现争议时双方应当协商解决，协商不成的，提交人民法院管⏎辖。⏎
设备在第一次使用以前应当完成下面列出的全部准备工作，缺一不可⏎‖■ 检查电源⏎‖➢ 连接网络⏎‖\uf0b7 更新系统⏎‖③ 重新启动⏎
本软件的安装分为两个部分，第一部分的内容将在下面的章节里详细说明⏎‖2.1 准备工作⏎‖请先关闭其他程序。
""",
    "a line that only looks like a list": """
公司在过去的三年中先后在北京、上海、广州等地设立了分支机构，现有员工⏎3.5万人，其中研发人员占一半。
公司在过去的三年中先后在北京、上海、广州等地设立了分支机构，并计划于⏎十一、十二月间在成都设立研发中心。
当事人一方不履行合同义务或者履行不符合约定的，应当依照本法⏎第五百七十七条的规定承担违约责任。‖双方另有约定的除外。
公司在过去的三年中先后在北京、上海、广州等地设立了分支机构，并于⏎2020年又在成都设立了研发中心。
""",
    "words split by a hyphen": """
The inter-⏎national agreement on transport was signed by all twenty-␍⏎seven members. ‖It holds.
该模型采用了 trans-⏎former 结构，效果良好。‖训练需要三天。
甲型-⏎‖乙型
""",
    "an abbreviation at the end of a line": """
The results of the second experiment are shown in Fig.⏎3 of the paper. ‖The next sentence is here.
The committee was chaired for more than ten years by Dr.␍⏎Smith of Oxford. ‖It met twice a year.
The members of the committee could not agree on a plan, so they said no.⏎‖Another plan was made.
""",
    "Windows line ends": """
这份报告由三个部门共同完成，历时两个月，收集了来自各地的大量␍⏎数据，并且经过了核对。‖结论可␍⏎‖靠。␍⏎
""",
}
PARAGRAPHS = """
第一行没有句号⏎第二行。‖第三句␍⏎第四⏎⏎‖第五段␍⏎␍⏎‖第六……⏎下一行。
甲\u2029‖乙\u2028丙
正文⏎‖```⏎a. B。c⏎```⏎⏎‖正文。‖完。
"""
LEGAL = """
第十条　有下列情形之一的，劳动合同终止：⏎‖　　（一）劳动合同期满的；⏎‖　　（二）用人单位被依法宣告破产的；⏎‖　　（三）法律规定的其他情形。⏎
第十条　有下列情形之一的，劳动合同终止：‖（一）期满的；‖（二）被宣告破产的；‖（三）其他情形。‖前款情形下应当支付补偿。
申请人应当提交下列材料： ‖1．申请书；‖2．身份证明（复印件；加盖公章）；‖3．其他材料。
审查分三步：‖①受理；‖②审核；‖③公示。
合作社享有下列权利:‖(1)自主经营;‖(2)依法取得贷款;‖(3)法律规定的其他权利。
处罚的种类包括：‖甲、警告；‖乙、罚款。
本案有两个争点：‖一是合同是否成立；‖二是损失如何计算。
合同金额：人民币100,000元；‖付款方式：转账。‖甲方：某某公司；‖乙方：李四。
本法所称“经营者”，包括从事经营的自然人（农户除外；下同）。
将第十条修改为：“有下列情形之一的，应当备案：（一）设立；（二）变更。变更的，应当说明理由。”‖本决定自公布之日起施行。
下列用语的含义：“数据”，是指对信息的记录；‖“数据处理”，包括收集、存储等。
当事人各承担：1/2的费用；‖会议于9：30开始；‖比例为1：2.5；‖注册资本：3.5亿元。
国务院规定：凡从事前款活动的，应当取得许可。
"""
CLAIMS = """
1.一种装置，其特征在于：‖包括壳体；‖所述壳体内设有电机，比例为1：2；‖详见https://a.com; ‖时间8:30。‖A&amp;B。
1. 一种散热装置，其特征在于，包括：‖壳体（1），所述壳体内设有风道；‖电机（2；21），固定在所述壳体（1）上；‖以及扇叶，由所述电机驱动。
1.一种图像识别方法，其特征在于，包括以下步骤：‖S1：获取待识别图像；‖S2：提取特征；‖步骤三：根据y=f(x：w)计算。
2.根据权利要求1所述的方法，其特征在于：‖所述步骤S2具体包括：‖S21，灰度化；‖S22，去噪。
3、根据权利要求1或2所述的组合物，其特征在于：‖按重量份计，包括：‖聚乙烯50-60份；‖抗氧剂0.5-1.0份；‖水∶醇＝1∶3。
4. 一种存储介质, 其特征在于: ‖其上存储有程序; ‖所述程序被执行时实现权利要求1至3任一项所述的方法.
权利要求书⏎‖1.一种电池，其特征在于，包括：⏎‖正极；⏎‖负极；以及⏎‖位于二者之间的隔膜，其孔隙率满足：‖30%≤P≤60%。⏎
5.一种系统，其特征在于，所述指令为“启动：泵；停止：阀”，由控制器执行。
"""
PDF_STATUTE = """
第三十九条　劳动者有下列情形之一的，用人单位可以解除劳动合同：⏎‖（一）在试用期间被证明不符合录用条件，或者严重违反用人单位的规章制⏎度的；⏎‖（二）严重失职，营私舞弊，给用人单位造成重大损害的；⏎
"""
SEMICOLONS_AND_COLONS = """
1.一种装置，其特征在于：‖包括壳体；‖所述壳体内设有电机，比例为1：2；‖详见https://a.com; ‖时间8:30。‖A&amp;B。
他说：‖“先做甲；‖再做乙。”‖大家同意。
"""
KEPT_QUOTES = """
他说：“今天先到这里。明天再继续。”‖大家散了。
“快走！快走！”他喊道。‖没人听见。
"""
EVERY_ELLIPSIS = """
他想了想……‖然后笑了。‖“我……‖我不去。”
等等...‖我马上来。
"""
NO_ELLIPSIS = """
她说：“算了……”我没有回答。
"""


def cases(table):
    return [line.replace("␍⏎", "\r\n").replace("⏎", "\n") for line in table.strip("\n").split("\n")]


def each(*tables):
    """(options, case) for pytest, from (options, table)."""
    return [(ChineseSentenceTokenizer(**options), case) for options, table in tables for case in cases(table)]


# ------------------------------------------------------------------------------------------------ what is cut where


def golden_share(*, optional):
    chosen = [row for row in GOLDEN if bool(row.get("optional")) == optional and row.get("mode") != "wrap"]
    return sum(chinese_sentence_tokenizer(row["text"]) == row["sentences"] for row in chosen) / len(chosen)


def test_golden_cases():
    assert golden_share(optional=False) >= 0.97


def test_golden_cases_on_which_people_differ():
    assert golden_share(optional=True) >= 0.8


@pytest.mark.parametrize("row", [row for row in GOLDEN if row.get("mode") == "wrap"], ids=lambda row: row["id"])
def test_golden_hard_wrapped_lines(row):
    assert ChineseSentenceTokenizer(newline="wrap")(row["text"]) == row["sentences"]


@pytest.mark.parametrize("kind,case", [(kind, case) for kind, table in KINDS.items() for case in cases(table)])
def test_kinds_of_text(kind, case):
    assert chinese_sentence_tokenizer(case.replace("‖", "")) == case.split("‖"), kind


@pytest.mark.parametrize(
    "tokenizer,case",
    each(
        ({"newline": "wrap"}, WRAPPED),
        *(({"newline": "wrap"}, table) for table in PDF_TEXT.values()),
        ({"newline": "paragraph"}, PARAGRAPHS),
        ({"semicolon": True, "colon": True}, SEMICOLONS_AND_COLONS),
        ({"quotes": "keep"}, KEPT_QUOTES),
        ({"ellipsis": "always"}, EVERY_ELLIPSIS),
        ({"ellipsis": "never"}, NO_ELLIPSIS),
    ),
)
def test_options(tokenizer, case):
    assert tokenizer(case.replace("‖", "")) == case.split("‖")


@pytest.mark.parametrize("space", [" ", "\n", "\r\n\r\n", "\t 　", "\u2028\n ", "\ufeff"])
def test_white_space_alone_is_one_piece(space):
    assert chinese_sentence_tokenizer(space) == [space]


def test_white_space_goes_with_the_sentence_before_up_to_the_last_newline():
    text = "\n\n　　甲。 \n \n　　乙。丙。 \n　"
    assert chinese_sentence_tokenizer(text) == ["\n\n　　甲。 \n \n", "　　乙。", "丙。 \n　"]


def test_nothing_is_nothing():
    assert chinese_sentence_tokenizer("") == []
    assert ChineseSentenceTokenizer().ends("") == []
    assert ChineseSentenceTokenizer().spans("") == []


def test_the_three_views_agree():
    tokenizer, text = ChineseSentenceTokenizer(), "甲。乙！\n丙"
    assert tokenizer.ends(text) == [2, 5, 6]
    assert [span.of(text) for span in tokenizer.spans(text)] == tokenizer(text) == ["甲。", "乙！\n", "丙"]


def test_a_quote_or_bracket_without_a_near_partner_is_ignored():
    body = "甲乙丙丁。" * 100
    for opener, closer in ["“”", "（）", "《》", "「」", "[]"]:
        assert len(chinese_sentence_tokenizer(opener + body + closer + "完。")) >= 100


# ------------------------------------------------------------------------------------------------ the value


def test_presets():
    legal, patent = ChineseSentenceTokenizer.legal(), ChineseSentenceTokenizer.patent()
    assert legal == ChineseSentenceTokenizer(quotes="keep", semicolon=True, colon="list")
    assert patent == ChineseSentenceTokenizer(quotes="keep", semicolon=True, colon=True)
    assert ChineseSentenceTokenizer.legal("wrap").newline == ChineseSentenceTokenizer.patent("wrap").newline == "wrap"
    assert pickle.loads(pickle.dumps(legal)) == legal


@pytest.mark.parametrize("preset", [ChineseSentenceTokenizer.legal, ChineseSentenceTokenizer.patent])
def test_a_preset_needs_a_known_newline(preset):
    with pytest.raises(OptionError, match="newline='page' is unknown; use one of 'line', 'wrap', 'paragraph'"):
        preset("page")


@pytest.mark.parametrize(
    "tokenizer,case",
    [
        *((ChineseSentenceTokenizer.legal(), case) for case in cases(LEGAL)),
        *((ChineseSentenceTokenizer.patent(), case) for case in cases(CLAIMS)),
        *((ChineseSentenceTokenizer.legal("wrap"), case) for case in cases(PDF_STATUTE)),
    ],
)
def test_what_a_preset_cuts(tokenizer, case):
    assert tokenizer(case.replace("‖", "")) == case.split("‖")


@pytest.mark.parametrize(
    "tokenizer,case",
    [(ChineseSentenceTokenizer.legal(), cases(LEGAL)[1]), (ChineseSentenceTokenizer.patent(), cases(CLAIMS)[1])],
    ids=["legal", "patent"],
)
def test_a_parser_takes_a_preset(tokenizer, case):
    options = {"chunk_size": 24, "chunk_overlap": 0, "unit": "chars"}
    parser = SlidingWindowNodeParser(sentence_tokenizer=tokenizer, **options)
    document = Document(id_="act", text=case.replace("‖", ""))
    nodes = pickle.loads(pickle.dumps(parser)).get_nodes_from_documents([document])
    ends = tokenizer.ends(document.text)
    assert [node.text for node in nodes] == [document.text[node.start_char_idx : node.end_char_idx] for node in nodes]
    assert "".join(node.text for node in nodes) == document.text
    assert {node.end_char_idx for node in nodes} <= set(ends)
    others = [ChineseSentenceTokenizer(), ChineseSentenceTokenizer.legal(), ChineseSentenceTokenizer.patent()]
    keys = {
        get_transformation_hash([document], SlidingWindowNodeParser(sentence_tokenizer=other, **options))
        for other in others
    }
    assert len(keys) == len(others)
    assert type(parser).from_dict(parser.to_dict()).sentence_tokenizer == tokenizer


@pytest.mark.parametrize(
    "options,message",
    [
        ({"quotes": "join"}, r"quotes='join' is unknown; use one of 'split', 'keep'"),
        ({"ellipsis": True}, r"ellipsis=True is unknown; use one of 'auto', 'always', 'never'"),
        ({"newline": "word"}, r"newline='word' is unknown; use one of 'line', 'wrap', 'paragraph'"),
        ({"semicolon": "yes"}, r"semicolon='yes' is unknown; use one of True, False"),
        ({"colon": 1}, r"colon=1 is unknown; use one of True, False, 'list'"),
        ({"colon": "items"}, r"colon='items' is unknown; use one of True, False, 'list'"),
        ({"quotes": []}, r"quotes=\[\] is unknown"),
    ],
)
def test_wrong_options(options, message):
    with pytest.raises(OptionError, match=message):
        ChineseSentenceTokenizer(**options)


@pytest.mark.parametrize("text", [None, b"abc", 3, ["a"]])
def test_text_must_be_a_str(text):
    with pytest.raises(TypeError, match=f"text must be a str, not {type(text).__name__}"):
        chinese_sentence_tokenizer(text)


def test_pickles_hashes_and_compares():
    tokenizer = ChineseSentenceTokenizer(quotes="keep", newline="wrap")
    copy = pickle.loads(pickle.dumps(tokenizer))
    assert copy == tokenizer
    assert len({copy, tokenizer, ChineseSentenceTokenizer()}) == 2
    assert pickle.loads(pickle.dumps(chinese_sentence_tokenizer)) is chinese_sentence_tokenizer


def test_in_the_sentence_splitter_of_llama_index():
    splitter = SentenceSplitter(
        chunk_size=40, chunk_overlap=0, chunking_tokenizer_fn=chinese_sentence_tokenizer, tokenizer=list
    )
    text = "“走吧！”他说。" * 20
    assert set(splitter.split_text(text)) == {"“走吧！”他说。" * 5}


def test_in_the_sentence_window_parser_of_llama_index():
    parser = SentenceWindowNodeParser(sentence_splitter=ChineseSentenceTokenizer(), window_size=1)
    nodes = parser.get_nodes_from_documents([Document(text="天黑了。“走吧！”他说。我们走了。")])
    assert [node.text for node in nodes] == ["天黑了。", "“走吧！”他说。", "我们走了。"]


# ------------------------------------------------------------------------------------------------ any text at all

PIECES = [
    *"。！？…；：，、．.!?~“”‘’「」『』（）()《》【】[]①\"'*_`$|#-—²😀甲的是说Aa1 　\t\n\r\f\v\0",
    *"\x85\u2028\u2029\u200b\u200d\ufeff\ufe0f\u0301\ud800\udc00",
    *[
        "……",
        "\r\n",
        "\n```\n",
        "**",
        "[1]",
        "[J]",
        "<b>",
        "</b>",
        "<!--",
        "-->",
        "http://a.b/",
        "&nbsp;",
        "1. ",
        "- ",
        "3.5",
    ],
    *["Dr", "e.g", "The ", "他说：“", "👨‍👩‍👧", "这份报告由三个部门共同完成历时两个月"],
]
HOSTILE = [
    *[
        "“",
        "”",
        "。",
        "……",
        "《（",
        "「『",
        "！？",
        "a.",
        "1.",
        "http://a.b/",
        "（",
        "他说：“好。",
        "```\n",
        "$",
        "[1]",
        "\n",
        "　",
    ],
    *[
        "甲",
        "<b>",
        "|a|b|\n",
        "# \n",
        "- \n",
        "\r",
        "<!--",
        "“好。”",
        "（。）",
        "“。",
        "。”",
        '"好。',
        "`a。",
        "$a。",
        "。[1]",
        "。😀",
    ],
    *[
        "甲。 ",
        "a. ",
        "1. ",
        "甲! ",
        "好~ ",
        "。</b>",
        "…”",
        ". ",
        "。\u0301",
        "~~~\n好。好。\n",
        "“”。",
        "￥5.",
        "。* ",
        "&lt; 。",
    ],
]


def is_attached(char):
    return char == "\u200d" or category(char)[0] == "M"


@settings(deadline=None)  # the first example of an option set compiles its patterns
@given(st.lists(st.sampled_from(PIECES), max_size=60).map("".join), st.sampled_from(OPTION_SETS))
def test_any_text_is_partitioned_at_sound_places(text, tokenizer):
    ends = tokenizer.ends(text)
    assert is_partition(tokenizer.spans(text), len(text))
    assert "".join(tokenizer(text)) == text
    assert not [end for end in ends[:-1] if text[end - 1 : end + 1] == "\r\n" or is_attached(text[end])]


@settings(deadline=None)  # the first example of an option set compiles its patterns
@given(st.text(), st.sampled_from(OPTION_SETS))
def test_any_string_is_partitioned(text, tokenizer):
    assert is_partition(tokenizer.spans(text), len(text))


@pytest.mark.parametrize("unit", HOSTILE)
@pytest.mark.parametrize("tokenizer", [OPTION_SETS[0], OPTION_SETS[-1]], ids=["defaults", "others"])
def test_hostile_text_is_partitioned(unit, tokenizer):
    text = unit * 500
    assert is_partition(tokenizer.spans(text), len(text))


def calls_made(function, argument):
    """How many calls, to Python and to C, the function makes: work that no clock and no other process disturbs."""
    made = 0

    def count(_frame, event, _arg):
        nonlocal made
        made += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        function(argument)
    finally:
        sys.setprofile(before)
    return made


@pytest.mark.parametrize("unit", HOSTILE)
def test_work_grows_with_the_length(unit):
    short, long = (calls_made(chinese_sentence_tokenizer, unit * count) for count in (100, 400))
    assert long <= 4.5 * short + 100
